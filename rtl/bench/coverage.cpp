// Counts of lines and toggles of a C++ bench's model, compiled into builds that have them.
#include "verilated.h"
#include "verilated_cov.h"

extern "C" void bench_coverage(const char* path) { Verilated::threadContextp()->coveragep()->write(path); }
