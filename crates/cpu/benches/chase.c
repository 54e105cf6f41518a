/* A bare chase of pointers, in the order of crates/cpu/src/measure/order.rs: what its latencies are compared with.
   usage: chase SIZE LOCAL SEED SAMPLES; prints the nanoseconds of a load, a line for each sample. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { LINE = 64, PAGE = 4096, WINDOW = 32 };

struct order {
    uint64_t len, mask, key;
    unsigned half;
};

static uint64_t rotated(uint64_t value, unsigned by) {
    by &= 63;
    return by ? value << by | value >> (64 - by) : value;
}

static struct order order(uint64_t len, uint64_t seed) {
    unsigned bits = len > 1 ? 64 - (unsigned)__builtin_clzll(len - 1) : 0;
    if (bits < 2) {
        bits = 2;
    }
    return (struct order){len, (1ull << bits) - 1, seed * 0x9e3779b97f4a7c15ull | 1, bits / 2};
}

static uint64_t at(const struct order *order, uint64_t number) {
    do {
        for (unsigned round = 0; round < 3; round++) {
            number = (number + rotated(order->key, 17 * round)) & order->mask;
            number = number * (0xd6e8feb86659fd93ull ^ order->key << 1) & order->mask;
            number ^= number >> (order->half ? order->half : 1);
        }
    } while (number >= order->len);
    return number;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        return 2;
    }
    uint64_t size = strtoull(argv[1], 0, 0), seed = strtoull(argv[3], 0, 0);
    int local = atoi(argv[2]), samples = atoi(argv[4]);
    char *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return 1;
    }
    madvise(memory, size, MADV_NOHUGEPAGE);
    uint64_t lines = size / LINE, in_window = local && lines > WINDOW * PAGE / LINE ? WINDOW * PAGE / LINE : lines;
    uint64_t windows = (lines + in_window - 1) / in_window;
    struct order outer = order(windows, seed);
    void **first = 0, **last = 0;
    for (uint64_t i = 0; i < windows; i++) {
        uint64_t window = at(&outer, i), start = window * in_window;
        uint64_t here = lines - start < in_window ? lines - start : in_window;
        struct order inner = order(here, seed ^ (window + 1) << 20);
        for (uint64_t j = 0; j < here; j++) {
            void **next = (void **)(memory + (start + at(&inner, j)) * LINE);
            if (last) {
                *last = next;
            } else {
                first = next;
            }
            last = next;
        }
    }
    *last = first;
    void **place = first;
    long loads = size > 4 << 20 ? 4096 : 16384;
    for (int sample = 0; sample < samples; sample++) {
        double begin = now();
        for (long i = 0; i < loads; i += 16) {
            place = *place; place = *place; place = *place; place = *place;
            place = *place; place = *place; place = *place; place = *place;
            place = *place; place = *place; place = *place; place = *place;
            place = *place; place = *place; place = *place; place = *place;
        }
        __asm__ volatile("" : "+r"(place));
        printf("%.4f\n", (now() - begin) / loads);
    }
    return 0;
}
