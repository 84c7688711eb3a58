// Atomics that the hardware lacks, by the loop of the CUDA programming guide: a plain load, then atomicCAS.

extern "C" __global__ void total(const float* x, float* sum, float* before, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned* word = reinterpret_cast<unsigned*>(sum);
    unsigned old = *word, assumed;
    do {
        assumed = old;
        old = atomicCAS(word, assumed, __float_as_uint(x[i] + __uint_as_float(assumed)));
    } while (assumed != old);
    before[i] = __uint_as_float(old);
}

extern "C" __global__ void maxima(const double* x, double* most, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned long long* word = reinterpret_cast<unsigned long long*>(most + i % 5);
        unsigned long long old = *word, assumed;
        do {
            assumed = old;
            double now = fmax(x[i], __longlong_as_double(assumed));
            old = atomicCAS(word, assumed, static_cast<unsigned long long>(__double_as_longlong(now)));
        } while (assumed != old);
    }
}

extern "C" __global__ void in_shared(const float* x, float* y) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    unsigned* word = reinterpret_cast<unsigned*>(&sum);
    unsigned old = *word, assumed;
    do {
        assumed = old;
        float now = x[blockIdx.x * blockDim.x + threadIdx.x] + __uint_as_float(assumed);
        old = atomicCAS(word, assumed, __float_as_uint(now));
    } while (assumed != old);
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

// What the plain load found is stored, too: nothing checks that.
extern "C" __global__ void leaks(const float* x, float* sum, float* before, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned* word = reinterpret_cast<unsigned*>(sum);
    unsigned old = *word, assumed;
    before[i] = __uint_as_float(old);
    do {
        assumed = old;
        old = atomicCAS(word, assumed, __float_as_uint(x[i] + __uint_as_float(assumed)));
    } while (assumed != old);
}

// What the plain load found decides that nothing needs to be done.
extern "C" __global__ void gives_up(const float* x, float* most, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int* word = reinterpret_cast<int*>(most);
    int old = *word, assumed;
    do {
        if (__int_as_float(old) >= x[i]) break;
        assumed = old;
        old = atomicCAS(word, assumed, __float_as_int(x[i]));
    } while (assumed != old);
}
