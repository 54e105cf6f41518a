/* Handlers behind a pointer, one of which is nearly always meant: what profiles help with. Prints nanoseconds for a
   step, and the result. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned faults;

static uint64_t digits(uint64_t value, uint64_t base) {
    return value / base + value % base;
}

static uint64_t shifted(uint64_t value, uint64_t base) {
    return value << (base & 3) ^ value >> 3;
}

static uint64_t fault(uint64_t value, uint64_t base) {
    faults++;
    return value ^ base * faults;
}

static uint64_t (*const handlers[3])(uint64_t, uint64_t) = {digits, shifted, fault};

int main(int argc, char **argv) {
    long steps = argc > 1 ? atol(argv[1]) : 1000;
    static unsigned char what[4096];
    static unsigned short base[4096];
    uint64_t state = 88172645463325252u, value = 1;
    if (steps <= 0) {
        return 1;
    }
    for (unsigned i = 0; i < 4096; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        unsigned dice = state >> 40 & 1023;
        what[i] = dice < 1010 ? 0 : dice < 1020 ? 1 : 2;
        base[i] = dice < 1000 ? 10 : 2 + (dice & 15);
    }
    struct timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (long step = 0; step < steps; step++) {
        unsigned at = (unsigned)step & 4095;
        value = handlers[what[at]](value + (uint64_t)step * 1000003u, base[at]);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    double ns = (end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec);
    printf("%.4f %llu\n", ns / steps, (unsigned long long)(value ^ faults));
    return 0;
}
