#pragma once
struct engine_params {
    int gpu_layers; // number of layers in device memory, negative means all; want gpu_layers
    bool use_map;   // map the file
};
