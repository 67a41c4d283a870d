// The reciprocal unit: 1/x and 1/sqrt(x), integer piecewise quadratics over constant tables.
// One argument a cycle, its result FuncLatency cycles later, never stalled, in step with dpu_func.
// docs/numerics.md section 4.

module dpu_recip
  import dpu_fp_pkg::*;
  import dpu_tables_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        valid_i,
  input  logic        rsqrt_i,  // else recip
  input  logic [31:0] x_i,

  output logic        valid_o,
  output logic [31:0] y_o
);

  // The argument's special value, or how its result is put together: 2^(power - 127) y, y in (1/2, 1].
  typedef struct packed {
    logic        special;
    logic        sign;
    logic [9:0]  power;  // signed, biased
    logic [31:0] value;  // where special
  } argument_t;

  function automatic argument_t classify(logic rsqrt, logic [31:0] x);
    argument_t a;
    a.special = (x[30:23] == 8'd0) || (x[30:23] == 8'd255) || (rsqrt && x[31]);
    a.sign    = x[31];
    a.power   = rsqrt ? 10'd188 + 10'(!x[23]) - 10'(x[30:24]) : 10'd252 - 10'(x[30:23]);
    if (is_nan(x[30:0])) a.value = QNan;
    else if (x[30:23] == 8'd0) a.value = {x[31] & !rsqrt, PlusInf[30:0]};
    else if (rsqrt && x[31]) a.value = QNan;
    else a.value = {x[31], 31'd0};
    return a;
  endfunction

  // Half to even to 24 fraction bits.
  function automatic logic [24:0] round(logic [28:0] y);
    logic up;
    up = y[3] & (y[4] | (|y[2:0]));
    return y[28:4] + 25'(up);
  endfunction

  // A reciprocal may be subnormal, which is zero; 2^-126 itself is not.
  function automatic logic [31:0] assemble(argument_t a, logic [24:0] y);
    if (a.special) return a.value;
    if (a.power[9] && !(&a.power && y[24])) return {a.sign, 31'd0};
    return {a.sign, 31'({a.power, 23'd0} + 33'(y))};
  endfunction

  // Register k stands after stage k; v_q[k]: it holds an argument, f_q[k]: not a special one.
  argument_t          arg_d;
  argument_t          arg_q [1:10] /* verilator split_var */;
  logic [16:0]        r_q   [1:6] /* verilator split_var */;
  logic signed [28:0] c0_q  [3:8] /* verilator split_var */;
  logic [12:1]        v_q;
  logic [9:1]         f_q;
  logic [8:1]         rsqrt_q;
  logic [9:1]         exact_q;  // a power of two (rsqrt: of four): y is 1, whatever the table says
  logic [6:0]         index_q;
  recip_entry_t       recip_rom_q;
  rsqrt_entry_t       rsqrt_rom_q;
  logic signed [21:0] c1_3_q, c1_4_q, c1_5_q;
  logic signed [15:0] c2_q;
  logic signed [32:0] square_4_q, square_5_q;
  logic signed [33:0] slope_q;
  logic signed [50:0] product_7_q, product_8_q;
  logic        [28:0] sum_q;
  logic        [24:0] y_10_q;
  logic        [31:0] y_11_q, y_12_q;

  assign arg_d = classify(rsqrt_i, x_i);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      v_q <= '0;
      f_q <= '0;
    end else begin
      v_q <= {v_q[11:1], valid_i};
      f_q <= {f_q[8:1], valid_i & !arg_d.special};
    end
  end

  // What travels along with an argument.
  always_ff @(posedge clk_i) begin
    rsqrt_q <= {rsqrt_q[7:1], rsqrt_i};
    exact_q <= {exact_q[8:1], (x_i[22:0] == 23'd0) && (!rsqrt_i || x_i[23])};
    if (valid_i) arg_q[1] <= arg_d;
    if (valid_i && !arg_d.special) r_q[1] <= {rsqrt_i & x_i[16], x_i[15:0]};
  end

  // As in dpu_func: a process and a variable an element.
  for (genvar k = 2; k <= 10; k++) begin : gen_arg
    always_ff @(posedge clk_i) if (v_q[k-1]) arg_q[k] <= arg_q[k-1];
  end
  for (genvar k = 2; k <= 6; k++) begin : gen_r
    always_ff @(posedge clk_i) if (f_q[k-1]) r_q[k] <= r_q[k-1];
  end
  for (genvar k = 4; k <= 8; k++) begin : gen_c0
    always_ff @(posedge clk_i) if (f_q[k-1]) c0_q[k] <= c0_q[k-1];
  end

  // The evaluator, a stage a paragraph.
  always_ff @(posedge clk_i) begin
    if (valid_i && !arg_d.special) index_q <= rsqrt_i ? {!x_i[23], x_i[22:17]} : x_i[22:16];

    if (f_q[1]) begin
      if (rsqrt_q[1]) rsqrt_rom_q <= RsqrtTable[index_q];
      else                recip_rom_q <= RecipTable[index_q];
    end

    if (f_q[2]) begin
      if (rsqrt_q[2]) begin
        c0_q[3] <= rsqrt_rom_q.c0;
        c1_3_q  <= rsqrt_rom_q.c1;
        c2_q    <= 16'(rsqrt_rom_q.c2);
      end else begin
        c0_q[3] <= recip_rom_q.c0;
        c1_3_q  <= recip_rom_q.c1;
        c2_q    <= 16'(recip_rom_q.c2);
      end
    end

    if (f_q[3]) begin
      square_4_q <= 33'(c2_q) * $signed({16'd0, r_q[3]});
      c1_4_q     <= c1_3_q;
    end

    if (f_q[4]) begin
      square_5_q <= square_4_q;  // a multiplier's own second register
      c1_5_q     <= c1_4_q;
    end

    if (f_q[5]) begin
      slope_q <= (rsqrt_q[5] ? 34'(square_5_q >>> RsqrtS2) : 34'(square_5_q >>> RecipS2)) + 34'(c1_5_q);
    end

    if (f_q[6]) product_7_q <= 51'(slope_q) * $signed({34'd0, r_q[6]});

    if (f_q[7]) product_8_q <= product_7_q;

    if (f_q[8]) begin
      sum_q <= $unsigned((rsqrt_q[8] ? 29'(product_8_q >>> RsqrtS1) : 29'(product_8_q >>> RecipS1)) + c0_q[8]);
    end

    if (f_q[9]) y_10_q <= exact_q[9] ? 25'h100_0000 : round(sum_q);

    if (v_q[10]) y_11_q <= assemble(arg_q[10], y_10_q);

    if (v_q[11]) y_12_q <= y_11_q;
  end

  assign valid_o = v_q[12];
  assign y_o     = y_12_q;

`ifndef SYNTHESIS
  // The registers above are laid out for this latency.
  if (FuncLatency != 12) begin : gen_latency
    $error("FuncLatency does not match the stages");
  end
`endif

endmodule
