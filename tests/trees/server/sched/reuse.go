package sched

import (
	"reflect"

	"example.org/server/api"
)

type ref struct {
	options *api.Options
}

type Unrelated struct {
	DeviceID string
}

func Serve(r *ref, body map[string]any) error {
	options := api.DefaultOptions()
	if err := options.FromMap(body); err != nil { // want gpu_layers
		return err
	}
	if r.stale(&options) { // want gpu_layers
		return reload(options)
	}
	return nil
}

// stale has the trap: no data flows into its answer by name, the whole struct is compared.
func (r *ref) stale(next *api.Options) bool {
	before := r.options.Runner
	after := next.Runner
	if after.Layers < 0 { // want gpu_layers
		before.Layers = -1 // want gpu_layers
		after.Layers = -1  // want gpu_layers
	}
	return !reflect.DeepEqual(before, after) // want gpu_layers
}

func reload(options api.Options) error {
	return nil
}

func other(a, b Unrelated) bool {
	return reflect.DeepEqual(a, b) // never gpu_layers
}
