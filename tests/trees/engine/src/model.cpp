#include "engine.h"
#include <algorithm>

int model::gpu_layers() const {
    return params.gpu_layers >= 0 ? params.gpu_layers : hparams.n_layer + 1; // want gpu_layers
}

bool model::load() {
    const int n = this->gpu_layers(); // want gpu_layers
    const int start = std::max(hparams.n_layer + 1 - n, 0); // want gpu_layers
    auto device_of = [&](int il) {
        if (il < start) { // want gpu_layers
            return cpu;
        }
        return gpu;
    };
    LOG_INFO("offloaded %d layers\n", n); // want gpu_layers
    const int other = hparams.n_head; // never gpu_layers
    return use_map && other > 0;
}
