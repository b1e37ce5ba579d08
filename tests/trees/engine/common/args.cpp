#include "engine.h"
#include <cstdlib>
#include <string>

// A table of flags with handlers, a variable that is read by name, and one whose name is put together.
static void parser_init(context & ctx) {
    add_opt(common_arg(
        {"-gl", "--gpu-layers"}, "N", // want gpu_layers
        "layers in device memory",
        [](common_params & params, const std::string & value) {
            if (value == "all") { // want gpu_layers
                params.gpu_layers = -2; // want gpu_layers
            } else {
                params.gpu_layers = std::stoi(value); // want gpu_layers
            }
        }
    ).set_env("ENGINE_ARG_GPU_LAYERS"));
    add_opt(common_arg(
        {"--no-map"}, // want mapped
        "do not map the file",
        [](common_params & params) {
            params.use_map = false; // want mapped
        }
    ));
    add_opt(common_arg(
        {"-glx", "--gpu-layers-draft"}, "N",
        "layers of the draft model",
        [](common_params & params, const std::string & value) {
            params.speculative.gpu_layers = std::stoi(value); // never gpu_layers
        }
    ));
}

static bool flag_from_environment(const std::string & suffix) {
    const std::string name = "ENGINE_RUN_" + suffix; // want ENGINE_RUN_FAST
    return getenv(name.c_str()) != nullptr;
}

static int threads() {
    const char * text = getenv("ENGINE_THREADS"); // want ENGINE_THREADS
    return text ? atoi(text) : 1; // want ENGINE_THREADS
}
