package bind

// #include "engine.h"
import "C"

import "example.org/server/api"

type Params struct {
	NumLayers int
}

func Load(options api.Options) Params {
	return Params{NumLayers: clip(options.Layers)} // want gpu_layers
}

func clip(asked int) int { // want gpu_layers
	return min(asked, 99) // want gpu_layers
}

func Open(params Params) {
	c := C.engine_defaults()
	c.gpu_layers = C.int(params.NumLayers) // want gpu_layers
	C.engine_open(c)
}
