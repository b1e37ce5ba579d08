// The smallest HIP unit: one kernel, compiled without ROCm (no device library, no headers).
struct dim3 { unsigned x, y, z; };
extern "C" unsigned __hipPushCallConfiguration(dim3, dim3, unsigned long, void *);
extern "C" int __hipPopCallConfiguration(dim3 *, dim3 *, unsigned long *, void **);
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);
__attribute__((global)) void NAME(float *x) { x[0] *= 2; }
