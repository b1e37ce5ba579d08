// Package api: options that arrive as JSON and are stored by reflection over their tags.
package api

import (
	"reflect"
	"strings"
)

type Runner struct {
	Layers  int   `json:"gpu_layers,omitempty"` // want gpu_layers
	Mapped  *bool `json:"mapped,omitempty"`
	Context int   `json:"context"`
}

type Options struct {
	Runner
	Seed int `json:"seed"`
}

func (o *Options) FromMap(values map[string]any) error { // want gpu_layers
	fields := map[string]reflect.StructField{}
	for _, field := range reflect.VisibleFields(reflect.TypeOf(o).Elem()) {
		fields[strings.Split(field.Tag.Get("json"), ",")[0]] = field
	}
	for key, value := range values {
		if field, ok := fields[key]; ok {
			reflect.ValueOf(o).Elem().FieldByName(field.Name).Set(reflect.ValueOf(value))
		}
	}
	return nil
}

func DefaultOptions() Options {
	return Options{
		Runner: Runner{
			Layers:  -1, // want gpu_layers
			Context: 4096,
		},
	}
}
