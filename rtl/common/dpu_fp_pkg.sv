// Float32 arithmetic and number conversions of the vector unit, all combinational, bit for bit ir/numerics.py:
// subnormal operands count as zeros of their sign, one IEEE operation rounded to nearest even, a subnormal rounded
// result becomes a zero of its sign, every NaN is 0x7FC00000. docs/numerics.md sections 2 and 3.

package dpu_fp_pkg;

  parameter logic [31:0] QNan = 32'h7FC0_0000;
  parameter logic [31:0] PlusInf = 32'h7F80_0000;

  /* verilator lint_off UNUSEDPARAM */  // for the modules that call a function unit
  parameter int unsigned FuncLatency = 12;  // registers between argument and result in dpu_func and dpu_recip
  /* verilator lint_on UNUSEDPARAM */

  typedef struct packed {
    logic        overflow;  // would round past 65504, infinities too
    logic [15:0] half;
  } f16_result_t;

  typedef struct packed {
    logic       nan;
    logic [7:0] q;
  } i8_result_t;

  typedef struct packed {
    logic       nan;
    logic [7:0] hi;  // x15 = 128 hi + lo
    logic [7:0] lo;
  } i15_result_t;

  // Shifts of the evaluator for a gate table, derived once from the header of its image (gate_config).
  typedef struct packed {
    logic [2:0] lg;  // the table covers |x| < 2^lg
    logic [4:0] rb;  // bits of the remainder
    logic [2:0] d;
    logic [4:0] s2;
    logic [4:0] s1;
  } gate_config_t;

  // One entry of a gate table; the limits of a table image make them fit.
  typedef struct packed {
    logic signed [27:0] c0;
    logic signed [21:0] c1;
    logic signed [15:0] c2;
  } gate_entry_t;

  function automatic logic is_nan(logic [30:0] magnitude);
    return magnitude > PlusInf[30:0];
  endfunction

  // Subnormal to zero of its sign, NaN to the one NaN.
  function automatic logic [31:0] ftz(logic [31:0] x);
    if (x[30:23] == 8'd0) return {x[31], 31'd0};
    if (is_nan(x[30:0])) return QNan;
    return x;
  endfunction

  function automatic logic [31:0] fadd(logic [31:0] a, logic [31:0] b);
    logic [31:0] larger, lesser;
    logic [26:0] aligned, mask;  // 24 bits of mantissa, guard, round, sticky
    logic [27:0] sum;
    logic [7:0]  distance;
    logic [4:0]  shift;
    logic [9:0]  e;  // signed: below 1 is subnormal
    logic        up;
    logic [31:0] rounded;
    if (a[30:0] >= b[30:0]) begin
      larger   = a;
      lesser = b;
    end else begin
      larger   = b;
      lesser = a;
    end
    if (larger[30:23] == 8'hFF) begin
      if (is_nan(larger[30:0]) || (lesser[30:23] == 8'hFF && larger[31] != lesser[31])) return QNan;
      return larger;
    end
    if (lesser[30:23] == 8'd0) begin
      if (larger[30:23] == 8'd0) return {larger[31] & lesser[31], 31'd0};
      return larger;
    end
    distance = larger[30:23] - lesser[30:23];
    shift    = (distance > 8'd27) ? 5'd27 : distance[4:0];
    mask     = 27'h7FF_FFFF << shift;
    aligned  = {1'b1, lesser[22:0], 3'd0};
    aligned  = (aligned >> shift) | 27'(|(aligned & ~mask));
    e        = {2'b00, larger[30:23]};
    if (larger[31] == lesser[31]) begin
      sum = {2'b01, larger[22:0], 3'd0} + {1'b0, aligned};
      if (sum[27]) begin
        sum = {1'b0, sum[27:2], sum[1] | sum[0]};
        e   = e + 10'd1;
      end
    end else begin
      sum = {2'b01, larger[22:0], 3'd0} - {1'b0, aligned};
      if (sum[26:0] == 27'd0) return 32'd0;
      if (sum[26:11] == 16'd0) begin sum = sum << 16; e = e - 10'd16; end
      if (sum[26:19] == 8'd0) begin sum = sum << 8; e = e - 10'd8; end
      if (sum[26:23] == 4'd0) begin sum = sum << 4; e = e - 10'd4; end
      if (sum[26:25] == 2'd0) begin sum = sum << 2; e = e - 10'd2; end
      if (!sum[26]) begin sum = sum << 1; e = e - 10'd1; end
      // A sum below 2^-126 is exact: there is no rounding that could reach 2^-126.
      if (e[9] || e == 10'd0) return {larger[31], 31'd0};
    end
    up      = sum[2] & (sum[3] | sum[1] | sum[0]);
    rounded = {e[8:0], sum[25:3]} + 32'(up);  // a carry moves the exponent on
    if (rounded[31:23] >= 9'd255) return {larger[31], PlusInf[30:0]};
    return {larger[31], rounded[30:0]};
  endfunction

  function automatic logic [31:0] fmul(logic [31:0] a, logic [31:0] b);
    logic        sign, up;
    logic [47:0] product;
    logic [9:0]  e;  // biased exponent, signed: below 1 is subnormal
    logic [23:0] mantissa;
    logic [32:0] rounded;
    sign = a[31] ^ b[31];
    if (a[30:23] == 8'hFF || b[30:23] == 8'hFF) begin
      if (is_nan(a[30:0]) || is_nan(b[30:0]) || a[30:23] == 8'd0 || b[30:23] == 8'd0) return QNan;
      return {sign, PlusInf[30:0]};
    end
    if (a[30:23] == 8'd0 || b[30:23] == 8'd0) return {sign, 31'd0};
    product  = 48'({1'b1, a[22:0]}) * 48'({1'b1, b[22:0]});
    e        = {2'b00, a[30:23]} + {2'b00, b[30:23]} - 10'd127 + 10'(product[47]);
    mantissa = product[47] ? product[47:24] : product[46:23];
    up       = product[47] ? product[23] & (product[24] | (|product[22:0])) :
                             product[22] & (product[23] | (|product[21:0]));
    // One binade below 2^-126 the subnormal grid is twice as coarse: all ones is its last half step, which rounds
    // (the tie to even, too) up to 2^-126. Whatever is less becomes a subnormal, so zero.
    if (e[9] || e == 10'd0) return {sign, (e == 10'd0 && (&mantissa)) ? 31'h0080_0000 : 31'd0};
    rounded = {e, mantissa[22:0]} + 33'(up);
    if (rounded[32:23] >= 10'd255) return {sign, PlusInf[30:0]};
    return {sign, rounded[30:0]};
  endfunction

  // The larger; NaN if either is; max(-0, +0) = +0.
  function automatic logic [31:0] fmax(logic [31:0] a, logic [31:0] b);
    logic [31:0] x, y;
    logic        less;  // magnitude of x below that of y
    if (is_nan(a[30:0]) || is_nan(b[30:0])) return QNan;
    x    = ftz(a);
    y    = ftz(b);
    less = x[30:0] < y[30:0];
    if (x[31] != y[31]) return x[31] ? y : x;
    return (less ^ x[31]) ? y : x;
  endfunction

  // Nearest float32, half to even, of an integer given by sign and magnitude.
  function automatic logic [31:0] magnitude_to_f32(logic sign, logic [31:0] magnitude);
    logic [31:0] m;
    logic [7:0]  e;
    logic        up;
    if (magnitude == 32'd0) return 32'd0;
    m = magnitude;
    e = 8'd157;  // 127 + 31, less the leading one that is added to it below
    if (m[31:16] == 16'd0) begin m = m << 16; e = e - 8'd16; end
    if (m[31:24] == 8'd0) begin m = m << 8; e = e - 8'd8; end
    if (m[31:28] == 4'd0) begin m = m << 4; e = e - 8'd4; end
    if (m[31:30] == 2'd0) begin m = m << 2; e = e - 8'd2; end
    if (!m[31]) begin m = m << 1; e = e - 8'd1; end
    up = m[7] & (m[8] | (|m[6:0]));
    return {sign, {e, 23'd0} + 31'(m[31:8]) + 31'(up)};
  endfunction

  // Of a difference of two int32: -2^32 is none.
  function automatic logic [31:0] i33_to_f32(logic signed [32:0] x);
    return magnitude_to_f32(x[32], x[32] ? -x[31:0] : x[31:0]);
  endfunction

  function automatic logic [31:0] i32_to_f32(logic signed [31:0] x);
    return magnitude_to_f32(x[31], $unsigned(x[31] ? -x : x));
  endfunction

  // Exact; NaN to the one NaN.
  function automatic logic [31:0] f16_to_f32(logic [15:0] h);
    logic [9:0] m;
    logic [7:0] e;
    if (h[14:10] == 5'd31) return (h[9:0] == 10'd0) ? {h[15], PlusInf[30:0]} : QNan;
    if (h[14:10] != 5'd0) return {h[15], 8'(h[14:10]) + 8'd112, h[9:0], 13'd0};
    if (h[9:0] == 10'd0) return {h[15], 31'd0};
    m = h[9:0];
    e = 8'd112;  // of a subnormal half whose first mantissa bit is set, once that bit has been shifted out
    if (m[9:2] == 8'd0) begin m = m << 8; e = e - 8'd8; end
    if (m[9:6] == 4'd0) begin m = m << 4; e = e - 8'd4; end
    if (m[9:8] == 2'd0) begin m = m << 2; e = e - 8'd2; end
    if (!m[9]) begin m = m << 1; e = e - 8'd1; end
    return {h[15], e, m[8:0], 14'd0};
  endfunction

  // Half to even, subnormals kept; what would round past 65504 becomes +-65504 and is reported.
  function automatic f16_result_t f32_to_f16(logic [31:0] x);
    logic [7:0]  e;
    logic [4:0]  s;
    logic [24:0] m;
    logic [14:0] h;
    e = x[30:23];
    if (is_nan(x[30:0])) return '{overflow: 1'b0, half: 16'h7E00};
    if (x[30:0] >= 31'h477F_F000) return '{overflow: 1'b1, half: {x[31], 15'h7BFF}};
    if (e > 8'd112) begin
      h = 15'((x[30:0] - 31'h3800_0000 + 31'h0FFF + 31'(x[13])) >> 13);
      return '{overflow: 1'b0, half: {x[31], h}};
    end
    if (e < 8'd102) return '{overflow: 1'b0, half: {x[31], 15'd0}};  // below 2^-25
    s = 5'(8'd126 - e);  // 14 to 24: one half unit of the last place is 2^(s - 1)
    m = {2'b01, x[22:0]};
    m = (m + (25'h0FF_FFFF >> (5'd25 - s)) + ((m >> s) & 25'd1)) >> s;
    return '{overflow: 1'b0, half: {x[31], m[14:0]}};
  endfunction

  // Nearest integer, half to even, of a magnitude below 2^14; larger ones (NaN too) as 2^14.
  function automatic logic [14:0] round_magnitude(logic [30:0] x);
    logic [7:0]  e;
    logic [4:0]  s;
    logic [24:0] m;
    e = x[30:23];
    if (e >= 8'd141) return 15'h4000;
    if (e < 8'd126) return 15'd0;  // below 1/2
    s = 5'(8'd150 - e);  // 10 to 24
    m = {2'b01, x[22:0]};
    m = (m + (25'h0FF_FFFF >> (5'd25 - s)) + ((m >> s) & 25'd1)) >> s;
    return m[14:0];
  endfunction

  // Half to even, then saturated to [-127, 127]; NaN to 0.
  function automatic i8_result_t f32_to_i8(logic [31:0] x);
    logic [14:0] m;
    logic [7:0]  q;
    if (is_nan(x[30:0])) return '{nan: 1'b1, q: 8'd0};
    m = round_magnitude(x[30:0]);
    q = (m > 15'd127) ? 8'd127 : m[7:0];
    return '{nan: 1'b0, q: x[31] ? -q : q};
  endfunction

  // The same, saturated to [-128, 127]. The -128 of the offset form is added before, in float32.
  function automatic i8_result_t f32_to_i8_offset(logic [31:0] x);
    logic [14:0] m, limit;
    logic [7:0]  q;
    if (is_nan(x[30:0])) return '{nan: 1'b1, q: 8'd0};
    m     = round_magnitude(x[30:0]);
    limit = x[31] ? 15'd128 : 15'd127;
    q     = (m > limit) ? limit[7:0] : m[7:0];
    return '{nan: 1'b0, q: x[31] ? -q : q};
  endfunction

  // Half to even, then saturated to +-16319, in two planes; NaN to 0.
  function automatic i15_result_t f32_to_i15(logic [31:0] x);
    logic [14:0] m;
    logic [14:0] x15, shifted;  // signed
    if (is_nan(x[30:0])) return '{nan: 1'b1, hi: 8'd0, lo: 8'd0};
    m       = round_magnitude(x[30:0]);
    m       = (m > 15'd16319) ? 15'd16319 : m;
    x15     = x[31] ? -m : m;
    shifted = x15 + 15'd64;
    // lo = x15 - 128 hi is in [-64, 63]: the low 7 bits of the sum, less 64.
    return '{nan: 1'b0, hi: shifted[14:7], lo: {1'b0, shifted[6:0]} - 8'd64};
  endfunction

  // From the first 16 bytes of a table image: magic, version, entries at byte 6, lg, of (24), f1, f2 from byte 8.
  function automatic gate_config_t gate_config(logic [127:0] header);
    gate_config_t c;
    logic [3:0]   index_bits;
    logic [4:0]   f1, f2, rb, d;
    index_bits = 4'd0;
    for (int unsigned k = 1; k <= 8; k++) if (header[48+k]) index_bits = 4'(k);
    f1   = header[84:80];
    f2   = header[92:88];
    rb   = 5'd20 + 5'(header[66:64]) - 5'(index_bits);
    d    = (rb > 5'd17) ? rb - 5'd17 : 5'd0;
    c.lg = header[66:64];
    c.rb = rb;
    c.d  = d[2:0];
    c.s2 = rb - d + f2 - f1;
    c.s1 = rb + f1 - 5'd24;
    return c;
  endfunction

  // From the 16 bytes of an entry: c0, c1, c2 as int32, four zero bytes.
  /* verilator lint_off UNUSEDSIGNAL */  // sign bits above what the limits allow, and the zeros
  function automatic gate_entry_t gate_entry(logic [127:0] data);
    return '{c0: $signed(data[27:0]), c1: $signed(data[53:32]), c2: $signed(data[79:64])};
  endfunction
  /* verilator lint_on UNUSEDSIGNAL */

endpackage
