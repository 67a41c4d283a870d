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

  // Two operands by magnitude; a NaN is larger than all else.
  typedef struct packed {
    logic [31:0] larger;
    logic [31:0] lesser;
  } ordered_t;

  function automatic ordered_t order(logic [31:0] a, logic [31:0] b);
    return (a[30:0] >= b[30:0]) ? '{larger: a, lesser: b} : '{larger: b, lesser: a};
  endfunction

  // The mantissa of the lesser under that of the larger: 24 bits, guard, round, sticky.
  function automatic logic [26:0] align_lesser(ordered_t o);
    logic [26:0] aligned;
    logic        sticky;
    logic [7:0]  distance;
    distance = o.larger[30:23] - o.lesser[30:23];
    aligned  = {1'b1, o.lesser[22:0], 3'd0};
    sticky   = 1'b0;
    case (distance[4:3])
      2'd1:    begin sticky = |aligned[7:0]; aligned = aligned >> 8; end
      2'd2:    begin sticky = |aligned[15:0]; aligned = aligned >> 16; end
      2'd3:    begin sticky = |aligned[23:0]; aligned = aligned >> 24; end
      default: ;
    endcase
    case (distance[2:1])
      2'd1:    begin sticky |= |aligned[1:0]; aligned = aligned >> 2; end
      2'd2:    begin sticky |= |aligned[3:0]; aligned = aligned >> 4; end
      2'd3:    begin sticky |= |aligned[5:0]; aligned = aligned >> 6; end
      default: ;
    endcase
    if (distance[0]) begin sticky |= aligned[0]; aligned = aligned >> 1; end
    if (distance[7:5] != 3'd0) begin sticky = 1'b1; aligned = '0; end
    aligned[0] |= sticky;
    return aligned;
  endfunction

  // The sum. One adder for sums and differences, one normalisation: a carry out is its first place.
  function automatic logic [31:0] add_ordered(ordered_t o);
    logic [26:0] aligned;
    logic        minus, up;
    logic [27:0] sum;
    logic [4:0]  zeros;  // leading ones
    logic [32:0] rounded;  // the exponent signed: below 1 is subnormal
    if (o.larger[30:23] == 8'hFF) begin
      if (is_nan(o.larger[30:0]) || (o.lesser[30:23] == 8'hFF && o.larger[31] != o.lesser[31])) return QNan;
      return o.larger;
    end
    if (o.lesser[30:23] == 8'd0) begin
      if (o.larger[30:23] == 8'd0) return {o.larger[31] & o.lesser[31], 31'd0};
      return o.larger;
    end
    minus   = o.larger[31] ^ o.lesser[31];
    aligned = align_lesser(o);
    // A difference's carry comes from a further lowest bit.
    sum   = 28'(({2'b01, o.larger[22:0], 3'd0, 1'b1} + {{1'b0, aligned} ^ {28{minus}}, minus}) >> 1);
    zeros = '0;
    if (sum[27:12] == 16'd0) begin sum = sum << 16; zeros[4] = 1'b1; end
    if (sum[27:20] == 8'd0) begin sum = sum << 8; zeros[3] = 1'b1; end
    if (sum[27:24] == 4'd0) begin sum = sum << 4; zeros[2] = 1'b1; end
    if (sum[27:26] == 2'd0) begin sum = sum << 2; zeros[1] = 1'b1; end
    if (!sum[27]) begin sum = sum << 1; zeros[0] = 1'b1; end
    if (!sum[27]) return 32'd0;
    up      = sum[3] & (sum[4] | (|sum[2:0]));
    // The leading one adds one to the exponent, and so does a carry of the rounding. A sum below 2^-126 is exact: there
    // is no rounding that could reach 2^-126.
    rounded = {{2'b00, o.larger[30:23]} - 10'(zeros), sum[26:4]} + {10'd1, 22'd0, up};
    if (rounded[32] || rounded[31:23] == 9'd0) return {o.larger[31], 31'd0};
    if (rounded[31:23] >= 9'd255) return {o.larger[31], PlusInf[30:0]};
    return {o.larger[31], rounded[30:0]};
  endfunction

  // The larger; NaN if either is; max(-0, +0) = +0.
  function automatic logic [31:0] max_ordered(ordered_t o);
    if (is_nan(o.larger[30:0])) return QNan;
    return ftz(o.larger[31] ? o.lesser : o.larger);
  endfunction

  function automatic logic [31:0] fadd(logic [31:0] a, logic [31:0] b);
    return add_ordered(order(a, b));
  endfunction

  function automatic logic [31:0] fmax(logic [31:0] a, logic [31:0] b);
    return max_ordered(order(a, b));
  endfunction

  // fadd of operands that are no less than +0, or the one NaN: their sign bit is 0.
  function automatic logic [31:0] fadd_positive(logic [31:0] a, logic [31:0] b);
    ordered_t    o;
    logic        carry, up;
    logic [27:0] sum;
    logic [31:0] rounded;
    o = order(a, b);
    if (o.larger[30:23] == 8'hFF) return is_nan(o.larger[30:0]) ? QNan : PlusInf;
    if (o.lesser[30:23] == 8'd0) return (o.larger[30:23] == 8'd0) ? '0 : o.larger;
    sum     = {2'b01, o.larger[22:0], 3'd0} + {1'b0, align_lesser(o)};
    carry   = sum[27];
    sum     = carry ? sum : sum << 1;
    up      = sum[3] & (sum[4] | (|sum[2:0]));
    rounded = {1'b0, o.larger[30:23], sum[26:4]} + {8'd0, carry, 22'd0, up};
    if (rounded[31:23] >= 9'd255) return PlusInf;
    return {1'b0, rounded[30:0]};
  endfunction

  // Either, with one comparison.
  function automatic logic [31:0] fmax_or_add(logic maximum, logic [31:0] a, logic [31:0] b);
    ordered_t o;
    o = order(a, b);
    return maximum ? max_ordered(o) : add_ordered(o);
  endfunction

  // A product, given that of the mantissas.
  function automatic logic [31:0] fmul_of(logic [31:0] a, logic [31:0] b, logic [47:0] product);
    logic        sign, up;
    logic [9:0]  e;  // biased exponent, signed: below 1 is subnormal
    logic [23:0] mantissa;
    logic [32:0] rounded;
    sign = a[31] ^ b[31];
    if (a[30:23] == 8'hFF || b[30:23] == 8'hFF) begin
      if (is_nan(a[30:0]) || is_nan(b[30:0]) || a[30:23] == 8'd0 || b[30:23] == 8'd0) return QNan;
      return {sign, PlusInf[30:0]};
    end
    if (a[30:23] == 8'd0 || b[30:23] == 8'd0) return {sign, 31'd0};
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

  function automatic logic [31:0] fmul(logic [31:0] a, logic [31:0] b);
    return fmul_of(a, b, 48'({1'b1, a[22:0]}) * 48'({1'b1, b[22:0]}));
  endfunction

  // The same with one multiplier of 27 x 18 bits instead of two: the seven high bits of b are additions.
  function automatic logic [31:0] fmul_split(logic [31:0] a, logic [31:0] b);
    logic [30:0] high;
    high = {1'b0, 1'b1, a[22:0], 6'd0};
    for (int unsigned k = 0; k < 6; k++) if (b[17+k]) high += 31'({1'b1, a[22:0]}) << k;
    return fmul_of(a, b, 48'(41'({1'b1, a[22:0]}) * 41'(b[16:0])) + {high, 17'd0});
  endfunction

  // Nearest float32, half to even, of an integer given by sign and magnitude.
  function automatic logic [31:0] magnitude_to_f32(logic sign, logic [31:0] magnitude);
    logic [31:0] m;
    logic [4:0]  place;  // of the leading one
    logic        up;
    m     = magnitude;
    place = '1;
    if (m[31:16] == 16'd0) begin m = m << 16; place[4] = 1'b0; end
    if (m[31:24] == 8'd0) begin m = m << 8; place[3] = 1'b0; end
    if (m[31:28] == 4'd0) begin m = m << 4; place[2] = 1'b0; end
    if (m[31:30] == 2'd0) begin m = m << 2; place[1] = 1'b0; end
    if (!m[31]) begin m = m << 1; place[0] = 1'b0; end
    if (!m[31]) return 32'd0;
    up = m[7] & (m[8] | (|m[6:0]));
    return {sign, {8'd127, m[30:8]} + {3'd0, place, 22'd0, up}};
  endfunction

  // x or -x by one adder: its carry comes from a further lowest bit.
  function automatic logic [31:0] negated(logic minus, logic [31:0] x);
    return 32'(({x ^ {32{minus}}, 1'b1} + 33'(minus)) >> 1);
  endfunction

  // Of a difference of two int32: -2^32 is none.
  function automatic logic [31:0] i33_to_f32(logic signed [32:0] x);
    return magnitude_to_f32(x[32], negated(x[32], x[31:0]));
  endfunction

  function automatic logic [31:0] i32_to_f32(logic signed [31:0] x);
    return magnitude_to_f32(x[31], negated(x[31], $unsigned(x)));
  endfunction

  // Exact; NaN to the one NaN.
  function automatic logic [31:0] f16_to_f32(logic [15:0] h);
    logic [9:0] m;
    logic [3:0] zeros;
    if (h[14:10] == 5'd31) return (h[9:0] == 10'd0) ? {h[15], PlusInf[30:0]} : QNan;
    if (h[14:10] != 5'd0) return {h[15], 8'(h[14:10]) + 8'd112, h[9:0], 13'd0};
    m     = h[9:0];
    zeros = '0;
    if (m[9:2] == 8'd0) begin m = m << 8; zeros[3] = 1'b1; end
    if (m[9:6] == 4'd0) begin m = m << 4; zeros[2] = 1'b1; end
    if (m[9:8] == 2'd0) begin m = m << 2; zeros[1] = 1'b1; end
    if (!m[9]) begin m = m << 1; zeros[0] = 1'b1; end
    if (!m[9]) return {h[15], 31'd0};
    // 112 is that of a subnormal half whose first mantissa bit is set, once that bit has been shifted out.
    return {h[15], 8'd112 - 8'(zeros), m[8:0], 14'd0};
  endfunction

  // A magnitude in units of 1 (float16: of 2^-24), half to even, where it is below 2^14 (float16: 2^11); larger ones
  // are anything. What a stored format makes of it is up to the functions below.
  function automatic logic [14:0] round_units(logic [30:0] x, logic to_half);
    logic [38:0] m;  // 15 bits before the point, 24 behind it
    logic [7:0]  place;  // how far the mantissa stands left of 1/2
    logic        up;
    place = x[30:23] - (to_half ? 8'd102 : 8'd126);
    if (place[7:4] != 4'd0) return '0;  // below 1/2, or too large
    m  = 39'({1'b1, x[22:0]}) << place[3:0];
    up = m[23] & (m[24] | (|m[22:0]));
    return m[38:24] + 15'(up);
  endfunction

  // Half to even, subnormals kept; what would round past 65504 becomes +-65504 and is reported. Its subnormal units are
  // `round_units(x, 1)`.
  function automatic f16_result_t f32_units_to_f16(logic [31:0] x, logic [14:0] units);
    if (is_nan(x[30:0])) return '{overflow: 1'b0, half: 16'h7E00};
    if (x[30:0] >= 31'h477F_F000) return '{overflow: 1'b1, half: {x[31], 15'h7BFF}};
    if (x[30:23] > 8'd112) begin
      return '{overflow: 1'b0, half: {x[31], 15'((x[30:0] - 31'h3800_0000 + 31'h0FFF + 31'(x[13])) >> 13)}};
    end
    return '{overflow: 1'b0, half: {x[31], units}};
  endfunction

  // Half to even, then saturated to [-127, 127], with `offset` to [-128, 127]; NaN to 0. The -128 of the offset form is
  // added before, in float32. `units` are `round_units(x, 0)`.
  function automatic i8_result_t f32_units_to_i8(logic [31:0] x, logic [14:0] units, logic offset);
    logic [7:0] limit, q;
    if (is_nan(x[30:0])) return '{nan: 1'b1, q: 8'd0};
    limit = (offset && x[31]) ? 8'd128 : 8'd127;
    q     = (x[30:23] >= 8'd141 || units > 15'(limit)) ? limit : units[7:0];
    return '{nan: 1'b0, q: x[31] ? -q : q};
  endfunction

  // Half to even, then saturated to +-16319, in two planes; NaN to 0. `units` are `round_units(x, 0)`.
  function automatic i15_result_t f32_units_to_i15(logic [31:0] x, logic [14:0] units);
    logic [14:0] m;
    logic [14:0] x15, shifted;  // signed
    if (is_nan(x[30:0])) return '{nan: 1'b1, hi: 8'd0, lo: 8'd0};
    m       = (x[30:23] >= 8'd141 || units > 15'd16319) ? 15'd16319 : units;
    x15     = x[31] ? -m : m;
    shifted = x15 + 15'd64;
    // lo = x15 - 128 hi is in [-64, 63]: the low 7 bits of the sum, less 64.
    return '{nan: 1'b0, hi: shifted[14:7], lo: {1'b0, shifted[6:0]} - 8'd64};
  endfunction

  function automatic f16_result_t f32_to_f16(logic [31:0] x);
    return f32_units_to_f16(x, round_units(x[30:0], 1'b1));
  endfunction

  function automatic i8_result_t f32_to_i8(logic [31:0] x);
    return f32_units_to_i8(x, round_units(x[30:0], 1'b0), 1'b0);
  endfunction

  function automatic i8_result_t f32_to_i8_offset(logic [31:0] x);
    return f32_units_to_i8(x, round_units(x[30:0], 1'b0), 1'b1);
  endfunction

  function automatic i15_result_t f32_to_i15(logic [31:0] x);
    return f32_units_to_i15(x, round_units(x[30:0], 1'b0));
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
