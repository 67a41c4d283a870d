// The launches of a run in order, as fast as the driver takes them; launches.py has the layout.

#include <cstring>

struct Launch {
    unsigned char word[64];
    unsigned long long number;
    long long count;
    int kernel, tile, base, reserved;
};

// cuLaunchKernel, or `start_on_cpu` in its place.
typedef int (*Start)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                     unsigned shared, void *stream, void **parameters, void **extra);

extern "C" int start_on_cpu(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                            void **parameters, void **) {
    typedef void (*Kernel)(const void *word, const void *context, long long count);
    ((Kernel)function)(parameters[0], parameters[1], *(const long long *)parameters[2]);
    return 0;
}

// Starts `n` launches; the number of those that were started, and the status of the one that was not.
extern "C" long long start_all(Start start, void **functions, const unsigned *threads, void *stream, char **contexts,
                               long long dram_at, long long number_at, void **regions, const Launch *launches,
                               long long n, int *status) {
    for (long long i = 0; i < n; i++) {
        Launch x = launches[i];
        char *context = contexts[x.tile];
        if (x.base >= 0) memcpy(context + dram_at, &regions[x.base], sizeof(void *));
        memcpy(context + number_at, &x.number, sizeof x.number);
        void *parameters[3] = {x.word, context, &x.count};
        unsigned block = threads[x.kernel];
        long long blocks = (x.count + block - 1) / block;
        unsigned grid = (unsigned)(blocks < 1 << 20 ? blocks : 1 << 20);
        *status = start(functions[x.kernel], grid, 1, 1, block, 1, 1, 0, stream, parameters, nullptr);
        if (*status) return i;
    }
    return n;
}
