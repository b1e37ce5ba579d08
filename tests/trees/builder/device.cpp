#ifdef ENGINE_USE_GPU // want ENGINE_GPU
int devices() { return 1; }
#endif
