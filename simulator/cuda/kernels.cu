// The engines of a tile on a GPU, a thread for each element; docs/numerics.md says what they compute.
//
// NVRTC compiles this without fused multiply-add (-fmad=false); a C++ compiler makes the same functions for the CPU, item
// after item, with -ffp-contract=off, so that tests need no GPU. The offsets of fields (VEC_rows, MM_act, DMA_sram, ...)
// are put before the text, from ir/isa.py. The host has checked the words: nothing here looks at bounds.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef int i32;
typedef long long i64;

#ifdef __CUDACC_RTC__
#define DEV static __device__ __forceinline__
#define EACH(name)                                                                              \
    extern "C" __global__ void name(Word w, Context c, i64 count) {                             \
        for (i64 k = blockIdx.x * (i64)blockDim.x + threadIdx.x; k < count; k += (i64)gridDim.x * blockDim.x) \
            name##_item(w.b, c, k);                                                             \
    }
DEV void add_count(u64 *p, u64 v) { atomicAdd(p, v); }
DEV void raise_to(i32 *p, i32 v) { atomicMax(p, v); }
DEV void lower_to(u64 *p, u64 v) { atomicMin(p, v); }
DEV i32 dot(u32 a, u32 b, i32 s) { return __dp4a((i32)a, (i32)b, s); }
DEV u32 pick(u32 a, u32 b, u32 s) { return __byte_perm(a, b, s); }
DEV float rint_(float x) { return rintf(x); }
DEV float trunc_(float x) { return truncf(x); }
DEV u32 bits(float x) { return __float_as_uint(x); }
DEV float value(u32 x) { return __uint_as_float(x); }
#else
#include <cmath>
#include <cstring>
#define DEV static inline
#define EACH(name)                                                   \
    extern "C" void name(const Word *w, const Context *c, i64 count) { \
        for (i64 k = 0; k < count; k++) name##_item(w->b, *c, k);    \
    }
DEV void add_count(u64 *p, u64 v) { *p += v; }
DEV void raise_to(i32 *p, i32 v) { if (v > *p) *p = v; }
DEV void lower_to(u64 *p, u64 v) { if (v < *p) *p = v; }
DEV i32 dot(u32 a, u32 b, i32 s) {
    for (int k = 0; k < 32; k += 8) s += (i32)(i8)(a >> k) * (i32)(i8)(b >> k);
    return s;
}
DEV u32 pick(u32 a, u32 b, u32 s) {
    u32 y = 0;
    for (int k = 0; k < 4; k++) {
        u32 n = s >> (4 * k) & 7;
        y |= ((n < 4 ? a >> (8 * n) : b >> (8 * (n - 4))) & 255) << (8 * k);
    }
    return y;
}
DEV float rint_(float x) { return std::nearbyintf(x); }
DEV float trunc_(float x) { return std::truncf(x); }
DEV u32 bits(float x) { u32 y; memcpy(&y, &x, 4); return y; }
DEV float value(u32 x) { float y; memcpy(&y, &x, 4); return y; }
#endif

struct Word { u8 b[64]; };

struct Context {
    i8 *act, *wgt;
    i32 *acc;
    u8 *vbuf;
    float *param;
    u8 *dram;           // where the word's base register points
    const i32 *tables;  // exp2, recip, rsqrt, slot 0, slot 1: 3 x 256 coefficients and d, s2, s1, lg, rb
    u32 *stored;        // what a VEC word stores: bits for each element
    float *tap;         // what its reductions see
    float *sums;        // of column tiles, twice
    u64 *counts;        // for each tag: float16 overflows, NaN
    u64 *failed;        // the least number of a word at fault
    u64 number;         // of this word
    i64 cols;
};

DEV i64 f8(const u8 *w, int at) { return w[at]; }
DEV i64 f16(const u8 *w, int at) { return w[at] | w[at + 1] << 8; }
DEV i64 f32(const u8 *w, int at) { return (i64)((u32)w[at] | (u32)w[at + 1] << 8 | (u32)w[at + 2] << 16 | (u32)w[at + 3] << 24); }
DEV i64 s32(const u8 *w, int at) { return (i64)(i32)f32(w, at); }
DEV i64 f64(const u8 *w, int at) { return f32(w, at) | f32(w, at + 4) << 32; }

// ------------------------------------------------------------------------------------------------------ arithmetic

DEV float canonical(float x) {
    u32 b = bits(x), m = b & 0x7FFFFFFF;
    if (m < 0x00800000) b &= 0x80000000;
    if (m > 0x7F800000) b = 0x7FC00000;
    return value(b);
}
DEV float mul(float a, float b) { return canonical(a * b); }
DEV float add(float a, float b) { return canonical(a + b); }
DEV i32 key(float x) { i32 i = (i32)bits(x); return i ^ ((i >> 31) & 0x7FFFFFFF); }
DEV float unkey(i32 i) { return value((u32)(i ^ ((i >> 31) & 0x7FFFFFFF))); }
DEV float larger(float a, float b) { i32 x = key(a), y = key(b); return unkey(x > y ? x : y); }

DEV float half_value(u32 h) {
    u32 m = h & 0x7FFF, b = (m << 13) + (112u << 23);
    if (m < 0x0400) b = bits((float)(i32)m * 5.9604644775390625e-8f);
    if (m == 0x7C00) b = 0x7F800000;
    b |= (h & 0x8000) << 16;
    return value(m > 0x7C00 ? 0x7FC00000 : b);
}
DEV u32 half_bits(float x) {
    u32 b = bits(x), m = b & 0x7FFFFFFF;
    float a = value(m);
    a = a < 65504.0f ? a : 65504.0f;
    u32 c = bits(a);
    u32 h = c < (113u << 23) ? bits(a + 0.5f) - 0x3F000000 : (c - (112u << 23) + 0xFFF + (c >> 13 & 1)) >> 13;
    return m > 0x7F800000 ? 0x7E00 : h | (b >> 16 & 0x8000);
}

enum { STEP = 3 * 256 + 8 };

DEV i32 quadratic(const i32 *t, i32 i, i64 r) {
    i64 u = (((i64)t[512 + i] * (r >> t[768])) >> t[769]) + t[256 + i];
    return (i32)(t[i] + ((u * r) >> t[770]));
}
DEV i32 round4(i32 y) { return (y + (y >> 4 & 1) + 7) >> 4; }

DEV float exp2_(const i32 *t, float x) {
    if (x != x) return value(0x7FC00000);
    if (x < -126.0f) return 0.0f;
    if (x >= 128.0f) return value(0x7F800000);
    float a = x < 127.99999237060547f ? x : 127.99999237060547f, whole = trunc_(a);
    i32 f = (i32)rint_((a - whole) * 67108864.0f), n = (i32)whole + (f >> 26);
    f &= (1 << 26) - 1;
    return value((u32)(round4(quadratic(t, f >> 20, f & 0xFFFFF)) + ((n + 126) << 23)));
}
DEV float recip_(const i32 *t, float x) {
    i32 b = (i32)bits(x), e = b >> 23 & 255, m = b & 0x7FFFFF;
    if (e == 255 && m) return value(0x7FC00000);
    i32 q = m ? round4(quadratic(t, m >> 16, m & 0xFFFF)) : 1 << 24;
    i64 z = ((i64)(252 - e) << 23) + q;
    if (z < 1 << 23 || e == 255) z = 0;
    if (e == 0) z = 0x7F800000;
    return value((u32)z | ((u32)b & 0x80000000));
}
DEV float rsqrt_(const i32 *t, float x) {
    i32 b = (i32)bits(x), e = b >> 23 & 255, m = b & 0x7FFFFF, odd = (e & 1) ^ 1;
    if ((e == 255 && m) || (b < 0 && e > 0)) return value(0x7FC00000);
    i32 q = m || odd ? round4(quadratic(t, (m >> 17) + 64 * odd, m & 0x1FFFF)) : 1 << 24;
    if (e == 255) return 0.0f;
    if (e == 0) return value(0x7F800000);
    return value((u32)(((125 - ((e - 127 - odd) >> 1)) << 23) + q));
}
DEV float gate_(const i32 *t, float x) {
    if (x != x) return value(0x7FC00000);
    i32 lg = t[771], rb = t[772];
    float a = value(bits(x) & 0x7FFFFFFF), top = (float)(1 << lg), last = (float)((1 << (20 + lg)) - 1);
    a = rint_((a < top ? a : top) * 1048576.0f);
    i32 v = (i32)(a < last ? a : last), y = quadratic(t, v >> rb, v & ((1 << rb) - 1));
    y = y < 0 ? 0 : y > 1 << 24 ? 1 << 24 : y;
    if (bits(x) >> 31) y = (1 << 24) - y;
    return (float)y * 5.9604644775390625e-8f;
}

// ------------------------------------------------------------------------------------------------------------- VEC

struct Box { i64 at, rs, ts; };

DEV Box box(const u8 *w, int at) { Box b = {f16(w, at), f16(w, at + 2), f16(w, at + 4)}; return b; }
DEV i64 cell(Box b, i64 i, i64 t) { return b.at + i * b.rs + t * b.ts; }

DEV i32 integer(const Context &c, int buffer, Box b, i64 i, i64 j) {
    i64 at = cell(b, i, j / c.cols), k = j % c.cols;
    return buffer == 2 ? c.acc[at * c.cols + k] : ((const i32 *)c.param)[at + k];
}
DEV float operand(const Context &c, int source, Box b, i64 i, i64 j) {
    int buffer = source & 15, format = source >> 4;
    if (format == 0) return (float)integer(c, buffer, b, i, j);
    i64 at = cell(b, i, j / c.cols), k = j % c.cols;
    if (format == 2) return half_value(((const u16 *)c.vbuf)[at * c.cols + k]);
    return canonical(buffer == 4 ? c.param[at + k] : ((const float *)c.vbuf)[at * (c.cols / 2) + k]);
}
DEV float immediate(const u8 *w, i64 k) { return canonical(value((u32)f32(w, VEC_imm + 4 * (int)k))); }
DEV float factor(const u8 *w, const Context &c, i64 kind, int field, i64 i, i64 j, float b) {
    if (kind <= 2) return immediate(w, kind - 1);
    if (kind == 5) return b;
    return canonical(c.param[f16(w, field) + (kind == 3 ? i : j)]);
}

// One element up to its conversion: the bits to store, and in `tap` what the reductions see.
DEV u32 element(const u8 *w, const Context &c, i64 i, i64 j, float &tap) {
    int a_src = w[VEC_a_src], format = w[VEC_d_src] >> 4, op2 = w[VEC_op2] & 15, other = w[VEC_op2] >> 4;
    int m1 = w[VEC_m1], m2 = w[VEC_m2], rq = w[VEC_rq] & 15, func = w[VEC_func] & 15;
    float x, b = 0.0f;
    if (w[VEC_sub])
        x = (float)((i64)integer(c, a_src & 15, box(w, VEC_a), i, j) - ((const i32 *)c.param)[f16(w, VEC_sub_at) + i]);
    else
        x = operand(c, a_src, box(w, VEC_a), i, j);
    if ((m2 & 15) == 5 || m2 >> 4 == 5 || (op2 && other == 5)) b = operand(c, w[VEC_b_src], box(w, VEC_b), i, j);
    if (m1 & 15) x = mul(x, factor(w, c, m1 & 15, VEC_a1, i, j, b));
    if (m1 >> 4) x = add(x, factor(w, c, m1 >> 4, VEC_b1, i, j, b));
    if (m2 & 15) x = mul(x, factor(w, c, m2 & 15, VEC_a2, i, j, b));
    if (m2 >> 4) x = add(x, factor(w, c, m2 >> 4, VEC_b2, i, j, b));
    const i32 *t = c.tables + STEP * (func <= 3 ? func - 1 : 3 + (w[VEC_func] >> 4));
    if (func == 1) x = exp2_(t, x);
    if (func == 2) x = recip_(t, x);
    if (func == 3) x = rsqrt_(t, x);
    if (func == 4) x = gate_(t, x);
    if (func == 5) { x = bits(x) == 0xFF800000 ? 0.0f : x; x = mul(x, gate_(t, x)); }
    if (op2) {
        float second = factor(w, c, other, 0, i, j, b);
        x = op2 == 1 ? mul(x, second) : op2 == 2 ? add(x, second) : larger(x, second);
    }
    float z = rq ? mul(x, factor(w, c, rq, VEC_r, i, j, b)) : x;
    tap = x;
    u32 out = bits(z);
    bool bad = false;
    if (format == 1) tap = z;
    if (format == 2) {
        out = half_bits(z);
        tap = half_value(out);
        bad = (bits(z) & 0x7FFFFFFF) >= 0x477FF000 && z == z;
    } else if (format >= 3) {
        if (format == 4) z = add(z, -128.0f);
        float high = format == 5 ? 16319.0f : 127.0f, low = format == 4 ? -128.0f : -high;
        bad = z != z;
        z = bad ? 0.0f : rint_(z);
        i32 q = (i32)(z < low ? low : z > high ? high : z);
        out = (u32)q;
        if (w[VEC_red] & 32) tap = (float)q;
    }
    if (bad) add_count(c.counts + 2 * f16(w, HEADER_tag) + (format == 2 ? 0 : 1), 1);
    return out;
}

// One element of the destination.
DEV void put(const u8 *w, const Context &c, i64 i, i64 j, bool pad, u32 v) {
    i64 tiles = f8(w, VEC_tiles), k = j % c.cols;
    int buffer = w[VEC_d_src] & 15, format = w[VEC_d_src] >> 4;
    if (buffer == 15) return;
    if (pad) v = format == 4 ? (u32)-128 : 0;
    Box d = box(w, VEC_d);
    i64 at = cell(d, i, j / c.cols);
    if (buffer == 4) {
        if (!pad) ((u32 *)c.param)[at + k] = v;
    } else if (buffer == 3 && format == 1) {
        ((u32 *)c.vbuf)[at * (c.cols / 2) + k] = v;
    } else if (buffer == 3) {
        ((u16 *)c.vbuf)[at * c.cols + k] = (u16)v;
    } else if (format == 5) {
        i32 high = ((i32)v + 64) >> 7;
        c.act[at * c.cols + k] = (i8)high;
        c.act[(at + tiles * d.ts) * c.cols + k] = (i8)((i32)v - 128 * high);
    } else {
        c.act[at * c.cols + k] = (i8)v;
    }
}

// A word whose destination is nobody's operand, or its own element's: one element, padding columns too.
DEV void vec_direct_item(const u8 *w, const Context &c, i64 item) {
    i64 wide = f8(w, VEC_tiles) * c.cols, n = wide - c.cols + f8(w, VEC_valid), i = item / wide, j = item % wide;
    float tap;
    u32 v = 0;
    if (j < n) {
        v = element(w, c, i, j, tap);
        if (w[VEC_red] & 15) c.tap[i * n + j] = tap;
    }
    put(w, c, i, j, j >= n, v);
}
EACH(vec_direct)

// Any other: first all elements, then the destination.
DEV void vec_values_item(const u8 *w, const Context &c, i64 item) {
    i64 n = (f8(w, VEC_tiles) - 1) * c.cols + f8(w, VEC_valid);
    c.stored[item] = element(w, c, item / n, item % n, c.tap[item]);
}
EACH(vec_values)

DEV void vec_store_item(const u8 *w, const Context &c, i64 item) {
    i64 wide = f8(w, VEC_tiles) * c.cols, n = wide - c.cols + f8(w, VEC_valid), i = item / wide, j = item % wide;
    put(w, c, i, j, j >= n, j < n ? c.stored[i * n + j] : 0);
}
EACH(vec_store)

DEV float floor_or(int kind, float x) { return kind == 2 ? value(bits(x) & 0x7FFFFFFF) : x; }

// One row of one column tile: the tree of its sum and of its squares, or its maximum.
DEV void vec_tiles_item(const u8 *w, const Context &c, i64 item) {
    i64 tiles = f8(w, VEC_tiles), n = (tiles - 1) * c.cols + f8(w, VEC_valid), i = item / tiles, t = item % tiles;
    int kind = w[VEC_red] & 15;
    i64 count = n - t * c.cols < c.cols ? n - t * c.cols : c.cols;
    const float *x = c.tap + i * n + t * c.cols;
    if (kind <= 2) {
        i32 best = key(floor_or(kind, x[0]));
        for (i64 j = 1; j < count; j++) { i32 k = key(floor_or(kind, x[j])); best = k > best ? k : best; }
        c.sums[item] = unkey(best);
        return;
    }
    if (w[VEC_red] & 32) {  // integers: exact, so one after the other
        i64 total = 0;
        for (i64 j = 0; j < count; j++) total += (i64)x[j];
        ((i64 *)c.sums)[item] = total;
        return;
    }
    for (int square = 0; square <= kind - 3; square++) {
        float level[16];  // of the tree: sums of 1, 2, 4, ... neighbours that wait for their right half
        for (i64 j = 0; j < c.cols; j++) {
            float s = j < count ? x[j] : 0.0f;
            if (square) s = mul(s, s);
            int l = 0;
            for (i64 k = j; k & 1; k >>= 1, l++) s = add(level[l], s);
            level[l] = s;
        }
        int top = 0;
        while ((i64)1 << top < c.cols) top++;
        c.sums[square * f16(w, VEC_rows) * tiles + item] = level[top];
    }
}
EACH(vec_tiles)

// One row: its tiles in order, after what PARAM held in the accumulate form.
DEV void vec_rows_item(const u8 *w, const Context &c, i64 i) {
    i64 tiles = f8(w, VEC_tiles), rows = f16(w, VEC_rows);
    int kind = w[VEC_red] & 15;
    bool started = w[VEC_red] & 64;
    for (int square = 0; square <= (kind == 4); square++) {
        float *out = c.param + f16(w, VEC_red_at) + square * rows + i;
        if (kind == 3 && w[VEC_red] & 32) {
            i64 total = 0;
            for (i64 t = 0; t < tiles; t++) total += ((const i64 *)c.sums)[i * tiles + t];
            if (total > 1 << 24 || total < -(1 << 24)) lower_to(c.failed, c.number);
            *out = started ? add(canonical(*out), (float)total) : (float)total;
            continue;
        }
        const float *s = c.sums + square * rows * tiles + i * tiles;
        float acc = s[0];
        if (kind <= 2) {
            for (i64 t = 1; t < tiles; t++) acc = larger(acc, s[t]);
            if (kind == 2) acc = larger(acc, 5.9604644775390625e-8f);
            if (started) acc = larger(canonical(*out), acc);
        } else {
            if (started) acc = add(canonical(*out), acc);
            for (i64 t = 1; t < tiles; t++) acc = add(acc, s[t]);
        }
        *out = acc;
    }
}
EACH(vec_rows)

// One of the eight accumulators of a column: rows k, k + 8, ... in order. Maxima and integers may be split the same way.
DEV void vec_eighths_item(const u8 *w, const Context &c, i64 item) {
    i64 n = (f8(w, VEC_tiles) - 1) * c.cols + f8(w, VEC_valid), rows = f16(w, VEC_rows), j = item % n, k = item / n;
    int kind = w[VEC_red] & 15;
    const float *x = c.tap + j;
    if (kind == 3 && w[VEC_red] & 32) {
        i64 total = 0;
        for (i64 i = k; i < rows; i += 8) total += (i64)x[i * n];
        ((i64 *)c.sums)[item] = total;
        return;
    }
    float acc = kind == 2 ? 5.9604644775390625e-8f : kind == 1 ? x[0] : 0.0f, squares = 0.0f;
    for (i64 i = k; i < rows; i += 8) {
        float v = x[i * n];
        if (kind <= 2) {
            acc = larger(acc, floor_or(kind, v));
        } else {
            acc = i < 8 ? v : add(acc, v);
            squares = i < 8 ? mul(v, v) : add(squares, mul(v, v));
        }
    }
    c.sums[item] = acc;
    if (kind == 4) c.sums[8 * n + item] = squares;
}
EACH(vec_eighths)

// One column: the tree of its accumulators.
DEV void vec_columns_item(const u8 *w, const Context &c, i64 j) {
    i64 tiles = f8(w, VEC_tiles), n = (tiles - 1) * c.cols + f8(w, VEC_valid);
    int kind = w[VEC_red] & 15;
    bool started = w[VEC_red] & 64;
    for (int square = 0; square <= (kind == 4); square++) {
        float *out = c.param + f16(w, VEC_red_at) + square * tiles * c.cols + j;
        float y, acc[8];
        if (kind == 3 && w[VEC_red] & 32) {
            i64 total = 0;
            for (int k = 0; k < 8; k++) total += ((const i64 *)c.sums)[k * n + j];
            if (total > 1 << 24 || total < -(1 << 24)) lower_to(c.failed, c.number);
            y = (float)total;
        } else {
            for (int k = 0; k < 8; k++) acc[k] = c.sums[square * 8 * n + k * n + j];
            for (int half = 4; half; half /= 2)
                for (int k = 0; k < half; k++)
                    acc[k] = kind <= 2 ? larger(acc[2 * k], acc[2 * k + 1]) : add(acc[2 * k], acc[2 * k + 1]);
            y = acc[0];
        }
        if (started) y = kind <= 2 ? larger(canonical(*out), y) : add(canonical(*out), y);
        *out = y;
    }
}
EACH(vec_columns)

// -------------------------------------------------------------------------------------------------------------- MM

DEV void row_max_item(const u8 *w, const Context &c, i64 i) { ((i32 *)c.param)[f16(w, MM_rowmax_at) + i] = (i32)0x80000000; }
EACH(row_max)

// ROWS rows of four columns of one column tile.
DEV void matrix_item(const u8 *w, const Context &c, i64 item) {
    i64 groups = c.cols / 4, nx = f16(w, MM_nx), rows = nx * f16(w, MM_ny);
    i64 j = item % groups * 4, n = item / groups % f16(w, MM_nn), first = item / groups / f16(w, MM_nn) * ROWS;
    i64 nc = f16(w, MM_nc), nkx = f8(w, MM_nkx), nky = f8(w, MM_nky), cols = c.cols;
    const i8 *a[ROWS];
    i32 s[ROWS][4];
    i32 *out = c.acc + ((f32(w, MM_acc) + n * f16(w, MM_an) + first) * cols + j);
    int mode = w[MM_mode];
    for (int i = 0; i < ROWS; i++) {
        i64 row = first + i < rows ? first + i : rows - 1;
        a[i] = c.act + (f32(w, MM_act) + row / nx * f16(w, MM_sy) + row % nx * f16(w, MM_sx)) * cols;
        for (int k = 0; k < 4; k++) {
            s[i][k] = 0;
            if (mode == 1 && first + i < rows) s[i][k] = out[i * cols + k];
            if (mode == 2) s[i][k] = ((const i32 *)c.param)[f16(w, MM_init_at) + n * cols + j + k];
        }
    }
    const i8 *g = c.wgt + (f32(w, MM_wgt) + n * f16(w, MM_wn)) * cols + j;
    u32 least = 0;
    for (i64 ky = 0; ky < nky; ky++)
        for (i64 kx = 0; kx < nkx; kx++)
            for (i64 t = 0; t < nc; t++) {
                i64 from = (ky * f16(w, MM_sky) + kx * f16(w, MM_skx) + t * f16(w, MM_sc)) * cols;
                for (i64 r = 0; r < cols; r += 4, g += 4 * cols) {
                    u32 g0 = *(const u32 *)g, g1 = *(const u32 *)(g + cols);
                    u32 g2 = *(const u32 *)(g + 2 * cols), g3 = *(const u32 *)(g + 3 * cols);
                    // a byte of -128 is 0x80: then (b ^ 0x80) is zero
                    for (int k = 0; k < 4; k++) {
                        u32 v = (k == 0 ? g0 : k == 1 ? g1 : k == 2 ? g2 : g3) ^ 0x80808080u;
                        least |= (v - 0x01010101u) & ~v & 0x80808080u;
                    }
                    u32 p = pick(g0, g1, 0x5140), q = pick(g2, g3, 0x5140);  // columns 0 and 1, rows in turn
                    u32 u = pick(g0, g1, 0x7362), v = pick(g2, g3, 0x7362);
                    u32 c0 = pick(p, q, 0x5410), c1 = pick(p, q, 0x7632), c2 = pick(u, v, 0x5410), c3 = pick(u, v, 0x7632);
                    for (int i = 0; i < ROWS; i++) {
                        u32 x = *(const u32 *)(a[i] + from + r);
                        s[i][0] = dot(x, c0, s[i][0]);
                        s[i][1] = dot(x, c1, s[i][1]);
                        s[i][2] = dot(x, c2, s[i][2]);
                        s[i][3] = dot(x, c3, s[i][3]);
                    }
                }
            }
    if (least) lower_to(c.failed, c.number);
    for (int i = 0; i < ROWS && first + i < rows; i++) {
        i32 best = (i32)0x80000000;
        for (int k = 0; k < 4; k++) {
            out[i * cols + k] = s[i][k];
            if (n * cols + j + k < f16(w, MM_valid) && s[i][k] > best) best = s[i][k];
        }
        if (w[MM_rowmax]) raise_to((i32 *)c.param + f16(w, MM_rowmax_at) + first + i, best);
    }
}
EACH(matrix)

// -------------------------------------------------------------------------------------------------- LOAD and STORE

DEV i64 unit_of(const Context &c, int buffer) { return buffer == 3 ? 2 * c.cols : buffer == 4 ? 4 : c.cols; }
DEV u8 *memory_of(const Context &c, int buffer) {
    return buffer == 0 ? (u8 *)c.act : buffer == 1 ? (u8 *)c.wgt : buffer == 3 ? c.vbuf : (u8 *)c.param;
}

// `size` bytes of a cell; padding cells and the tail of a run's last word are filled.
template <typename T> DEV void load_part(const u8 *w, const Context &c, i64 item) {
    i64 size = sizeof(T), inner = f32(w, DMA_inner), unit = unit_of(c, w[DMA_buffer]);
    i64 width = (inner + unit - 1) / unit * unit, n1 = f16(w, DMA_n), n2 = f16(w, DMA_n + 2);
    i64 c1 = n1 + w[DMA_pad] + w[DMA_pad + 1], c2 = n2 + w[DMA_pad + 2] + w[DMA_pad + 3];
    i64 part = item % (width / size) * size, cell = item / (width / size);
    i64 i1 = cell % c1, i2 = cell / c1 % c2, i3 = cell / c1 / c2;
    i64 to = f32(w, DMA_sram) + i1 * f16(w, DMA_sstride) + i2 * f16(w, DMA_sstride + 2) + i3 * f16(w, DMA_sstride + 4);
    i64 s1 = i1 - w[DMA_pad], s2 = i2 - w[DMA_pad + 2];
    T v;
    if (w[DMA_format] == 0 && s1 >= 0 && s1 < n1 && s2 >= 0 && s2 < n2 && part < inner) {
        i64 from = f64(w, DMA_offset) + s1 * s32(w, DMA_dstride) + s2 * s32(w, DMA_dstride + 4) + i3 * s32(w, DMA_dstride + 8);
        v = *(const T *)(c.dram + from + part);
    } else {
        for (int k = 0; k < (int)sizeof(T); k++) ((u8 *)&v)[k] = w[DMA_fill];
    }
    *(T *)(memory_of(c, w[DMA_buffer]) + to * unit + part) = v;
}
DEV void load_bytes_item(const u8 *w, const Context &c, i64 item) { load_part<u8>(w, c, item); }
DEV void load_words_item(const u8 *w, const Context &c, i64 item) { load_part<u64>(w, c, item); }
EACH(load_bytes)
EACH(load_words)

template <typename T> DEV void store_part(const u8 *w, const Context &c, i64 item) {
    i64 size = sizeof(T), inner = f32(w, DMA_inner), unit = unit_of(c, w[DMA_buffer]);
    i64 n1 = f16(w, DMA_n), n2 = f16(w, DMA_n + 2);
    i64 part = item % (inner / size) * size, cell = item / (inner / size);
    i64 i1 = cell % n1, i2 = cell / n1 % n2, i3 = cell / n1 / n2;
    i64 at = f32(w, DMA_sram) + i1 * f16(w, DMA_sstride) + i2 * f16(w, DMA_sstride + 2) + i3 * f16(w, DMA_sstride + 4);
    i64 to = f64(w, DMA_offset) + i1 * s32(w, DMA_dstride) + i2 * s32(w, DMA_dstride + 4) + i3 * s32(w, DMA_dstride + 8);
    *(T *)(c.dram + to + part) = *(const T *)(memory_of(c, w[DMA_buffer]) + at * unit + part);
}
DEV void store_bytes_item(const u8 *w, const Context &c, i64 item) { store_part<u8>(w, c, item); }
DEV void store_words_item(const u8 *w, const Context &c, i64 item) { store_part<u64>(w, c, item); }
EACH(store_bytes)
EACH(store_words)

// One byte of a turned tile: word r, byte k = byte r of run k.
DEV void turn_item(const u8 *w, const Context &c, i64 item) {
    i64 k = item % c.cols, r = item / c.cols % c.cols, cell = item / c.cols / c.cols;
    i64 i2 = cell % f16(w, DMA_n + 2), i3 = cell / f16(w, DMA_n + 2);
    i64 to = f32(w, DMA_sram) + i2 * f16(w, DMA_sstride + 2) + i3 * f16(w, DMA_sstride + 4) + r;
    i64 from = f64(w, DMA_offset) + k * s32(w, DMA_dstride) + i2 * s32(w, DMA_dstride + 4) + i3 * s32(w, DMA_dstride + 8);
    c.wgt[to * c.cols + k] = k < f16(w, DMA_n) && r < f32(w, DMA_inner) ? (i8)c.dram[from + r] : 0;
}
EACH(turn)
