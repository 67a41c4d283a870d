// The function unit of one lane: exp2(x), a gate T(x), or x * T(x) over a loadable table; other codes pass x through.
// One argument a cycle, its result FuncLatency cycles later, never stalled. docs/numerics.md section 4.
// A gate asks for its entry by slot and index; table_entry_i is the answer in the cycle after table_valid_o.

module dpu_func
  import dpu_fp_pkg::*;
  import dpu_isa_pkg::*;
  import dpu_tables_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,

  input  logic         valid_i,
  input  function_e    func_i,
  input  logic [0:0]   slot_i,
  input  gate_config_t gate_i,  // of that slot
  input  logic [31:0]  x_i,

  output logic         table_valid_o,
  output logic [0:0]   table_slot_o,
  output logic [7:0]   table_index_o,
  input  gate_entry_t  table_entry_i,

  output logic         valid_o,
  output logic [31:0]  y_o
);

  typedef enum logic [1:0] {Pass, Exp2, Gate, GateMul} kind_e;

  // The function that is left to do, and its argument (kind Pass: its result).
  typedef struct packed {
    kind_e       kind;
    logic [31:0] x;
  } argument_t;

  // An argument in fixed point, before rounding to whole units.
  typedef struct packed {
    logic [32:0] whole;
    logic        up;
  } fixed_t;

  typedef struct packed {
    logic [7:0]  power;  // exp2: signed n
    logic [7:0]  index;
    logic [22:0] r;
  } split_t;

  localparam gate_config_t Exp2Config =
      '{lg: '0, rb: 5'(Exp2Rb), d: 3'(Exp2D), s2: 5'(Exp2S2), s1: 5'(Exp2S1)};

  // Special values leave the function here, as results to pass through.
  function automatic argument_t classify(function_e func, logic [31:0] x);
    unique case (func)
      FunctionExp2: begin
        if (is_nan(x[30:0])) return '{kind: Pass, x: QNan};
        if (!x[31] && x[30:23] >= 8'd134) return '{kind: Pass, x: PlusInf};  // from 128
        if (x[31] && x[30:0] > 31'h42FC_0000) return '{kind: Pass, x: '0};  // below -126
        return '{kind: Exp2, x: x};
      end
      FunctionGate, FunctionGateMul: begin
        if (is_nan(x[30:0])) return '{kind: Pass, x: QNan};
        if (func == FunctionGate) return '{kind: Gate, x: x};
        if (x == {1'b1, PlusInf[30:0]}) return '{kind: Pass, x: '0};  // defined so, not -inf * T
        return '{kind: GateMul, x: x};
      end
      default: return '{kind: Pass, x: x};
    endcase
  endfunction

  // |x| with 26 fraction bits for exp2 (|x| < 128), 20 for a gate (|x| < 16).
  function automatic fixed_t align(logic [30:0] x, logic exp2);
    logic [33:0] m;  // the lowest bit is the first one that is rounded off
    logic [7:0]  distance;
    logic        sticky;
    m        = {1'b1, x[22:0], 10'd0};
    sticky   = 1'b0;
    distance = (exp2 ? 8'd133 : 8'd139) - x[30:23];  // large for zero and subnormals: nothing is left
    case (distance[5:3])
      3'd0:    ;
      3'd1:    begin sticky = |m[7:0]; m = m >> 8; end
      3'd2:    begin sticky = |m[15:0]; m = m >> 16; end
      3'd3:    begin sticky = |m[23:0]; m = m >> 24; end
      3'd4:    begin sticky = |m[31:0]; m = m >> 32; end
      default: m = '0;
    endcase
    case (distance[2:1])
      2'd1:    begin sticky |= |m[1:0]; m = m >> 2; end
      2'd2:    begin sticky |= |m[3:0]; m = m >> 4; end
      2'd3:    begin sticky |= |m[5:0]; m = m >> 6; end
      default: ;
    endcase
    if (distance[0]) begin sticky |= m[0]; m = m >> 1; end
    if (distance[7:6] != 2'd0) m = '0;
    return '{whole: m[33:1], up: m[0] & (m[1] | sticky)};
  endfunction

  function automatic split_t split_exp2(fixed_t f, logic negative);
    logic [33:0] x;  // signed
    x = negative ? ~{1'b0, f.whole} + 34'(!f.up) : {1'b0, f.whole} + 34'(f.up);
    return '{power: x[33:26], index: {2'd0, x[25:20]}, r: {3'd0, x[19:0]}};
  endfunction

  function automatic split_t split_gate(fixed_t f, logic beyond, logic [2:0] lg, logic [4:0] rb);
    logic [24:0] v, last;
    v    = f.whole[24:0] + 25'(f.up);
    last = (25'h010_0000 << lg) - 25'd1;
    if (beyond || v > last) v = last;
    return '{power: '0, index: 8'(v >> rb), r: 23'(v & ~(25'h1FF_FFFF << rb))};
  endfunction

  // 2^n y, y with 27 fraction bits in [1, 2]; y is rounded half to even.
  function automatic logic [31:0] scale(logic [7:0] power, logic [28:0] y);
    logic up;
    up = y[3] & (y[4] | (|y[2:0]));
    return {power + 8'd126, 23'd0} + 32'(y[28:4]) + 32'(up);  // the leading one of y is the 127th
  endfunction

  // T as an integer over 2^24.
  function automatic logic [24:0] clamp(logic signed [31:0] y, logic negative);
    logic [24:0] t;
    if (y < 0) t = '0;
    else if (y > 32'sh0100_0000) t = 25'h100_0000;
    else t = y[24:0];
    return negative ? 25'h100_0000 - t : t;
  endfunction

  // t / 2^24, exact.
  function automatic logic [31:0] fraction_to_f32(logic [24:0] t);
    logic [24:0] m;
    logic [4:0]  place;  // of the leading one, 31 for the highest bit
    m     = t;
    place = '1;
    if (m[24:9] == '0) begin m = m << 16; place[4] = 1'b0; end
    if (m[24:17] == '0) begin m = m << 8; place[3] = 1'b0; end
    if (m[24:21] == '0) begin m = m << 4; place[2] = 1'b0; end
    if (m[24:23] == '0) begin m = m << 2; place[1] = 1'b0; end
    if (!m[24]) begin m = m << 1; place[0] = 1'b0; end
    if (!m[24]) return '0;
    return {1'b0, 8'd96 + 8'(place), m[23:1]};
  endfunction

  // Register k stands after stage k; v_q[k]: it holds an argument, f_q[k]: with a function to do.
  argument_t              arg_d;
  argument_t              arg_q   [1:11] /* verilator split_var */;
  gate_config_t           shift_q [1:8] /* verilator split_var */;
  logic      [7:0]        power_q [3:9] /* verilator split_var */;
  logic signed [28:0]     c0_q    [4:8] /* verilator split_var */;
  logic      [22:0]       r_q     [3:6] /* verilator split_var */;
  logic      [12:1]       v_q;
  logic      [10:1]       f_q;
  logic      [2:1]        slot_q;
  logic                   beyond_q;  // of the table's range
  fixed_t                 fixed_q;
  split_t                 split_q;
  exp2_entry_t            rom_q;
  logic signed [22:0]     c1_4_q, c1_5_q;
  logic signed [15:0]     c2_q;
  logic      [16:0]       top_q;  // r >> d
  logic signed [32:0]     square_q;
  logic signed [33:0]     slope_q;
  logic signed [40:0]     low_7_q;
  logic signed [39:0]     high_7_q;
  logic signed [56:0]     product_8_q;
  logic signed [31:0]     sum_q;
  logic      [24:0]       t_q;
  logic      [31:0]       gate_q, y_q;

  assign arg_d = classify(func_i, x_i);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      v_q <= '0;
      f_q <= '0;
    end else begin
      v_q <= {v_q[11:1], valid_i};
      f_q <= {f_q[9:1], valid_i & (arg_d.kind != Pass)};
    end
  end

  // What travels along with an argument.
  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      arg_q[1]   <= arg_d;
      shift_q[1] <= (arg_d.kind == Exp2) ? Exp2Config : gate_i;
    end
    slot_q <= {slot_q[1], slot_i};
    if (f_q[2]) begin
      power_q[3] <= split_q.power;
      r_q[3]     <= split_q.r;
    end
    if (v_q[9]) begin
      arg_q[10] <= arg_q[9];
      if (f_q[9] && arg_q[9].kind == Exp2) arg_q[10].x <= scale(power_q[9], sum_q[28:0]);
    end
    if (v_q[10]) arg_q[11] <= arg_q[10];
  end

  // A process and, by split_var, a variable an element: a simulator then moves only those that hold something.
  for (genvar k = 2; k <= 9; k++) begin : gen_arg
    always_ff @(posedge clk_i) if (v_q[k-1]) arg_q[k] <= arg_q[k-1];
  end
  for (genvar k = 2; k <= 8; k++) begin : gen_shift
    always_ff @(posedge clk_i) if (f_q[k-1]) shift_q[k] <= shift_q[k-1];
  end
  for (genvar k = 4; k <= 9; k++) begin : gen_power
    always_ff @(posedge clk_i) if (f_q[k-1]) power_q[k] <= power_q[k-1];
  end
  for (genvar k = 4; k <= 6; k++) begin : gen_r
    always_ff @(posedge clk_i) if (f_q[k-1]) r_q[k] <= r_q[k-1];
  end
  for (genvar k = 5; k <= 8; k++) begin : gen_c0
    always_ff @(posedge clk_i) if (f_q[k-1]) c0_q[k] <= c0_q[k-1];
  end

  assign table_valid_o = f_q[2] & (arg_q[2].kind != Exp2);
  assign table_slot_o  = slot_q[2];
  assign table_index_o = split_q.index;

  // The evaluator, a stage a paragraph.
  always_ff @(posedge clk_i) begin
    if (valid_i && arg_d.kind != Pass) begin
      fixed_q  <= align(arg_d.x[30:0], arg_d.kind == Exp2);
      beyond_q <= arg_d.x[30:23] >= 8'd127 + 8'(gate_i.lg);
    end

    if (f_q[1]) begin
      split_q <= (arg_q[1].kind == Exp2) ? split_exp2(fixed_q, arg_q[1].x[31]) :
                                           split_gate(fixed_q, beyond_q, shift_q[1].lg, shift_q[1].rb);
    end

    if (f_q[2] && arg_q[2].kind == Exp2) rom_q <= Exp2Table[split_q.index[5:0]];  // a gate's: in its RAM

    if (f_q[3]) begin
      if (arg_q[3].kind == Exp2) begin
        c0_q[4] <= rom_q.c0;
        c1_4_q  <= rom_q.c1;
        c2_q    <= 16'(rom_q.c2);
      end else begin
        c0_q[4] <= 29'(table_entry_i.c0);
        c1_4_q  <= 23'(table_entry_i.c1);
        c2_q    <= table_entry_i.c2;
      end
      top_q <= 17'(r_q[3] >> shift_q[3].d);
    end

    if (f_q[4]) begin
      square_q <= 33'(c2_q) * $signed({16'd0, top_q});
      c1_5_q   <= c1_4_q;
    end

    if (f_q[5]) slope_q <= 34'(square_q >>> shift_q[5].s2) + 34'(c1_5_q);

    if (f_q[6]) begin  // halves of the slope: two multipliers of 27 x 18
      low_7_q  <= 41'($signed({1'b0, slope_q[16:0]})) * $signed({18'd0, r_q[6]});
      high_7_q <= 40'($signed(slope_q[33:17])) * $signed({17'd0, r_q[6]});
    end

    if (f_q[7]) product_8_q <= 57'(low_7_q) + $signed({high_7_q, 17'd0});

    if (f_q[8]) sum_q <= 32'(product_8_q >>> shift_q[8].s1) + 32'(c0_q[8]);

    if (f_q[9] && arg_q[9].kind != Exp2) t_q <= clamp(sum_q, arg_q[9].x[31]);

    if (f_q[10] && arg_q[10].kind != Exp2) gate_q <= fraction_to_f32(t_q);

    if (v_q[11]) begin
      unique case (arg_q[11].kind)
        GateMul: y_q <= fmul(arg_q[11].x, gate_q);
        Gate:    y_q <= gate_q;
        default: y_q <= arg_q[11].x;
      endcase
    end
  end

  assign valid_o = v_q[12];
  assign y_o     = y_q;

`ifndef SYNTHESIS
  // The registers above are laid out for this latency.
  if (FuncLatency != 12) begin : gen_latency
    $error("FuncLatency does not match the stages");
  end
`endif

endmodule
