// Two columns of up to eight cells on one DSP a row: both weights share a multiplier, w1 * 2^18 + w0 times a (27 x 18).
// The cascade adds the rows without touching the upper column: eight products of at most 127 * 128 fit 18 signed bits.
// The same sums as two columns of dpu_mxu_cells, one cycle later.

module dpu_mxu_packed #(
  parameter int unsigned Rows = 8
) (
  input  logic                 clk_i,
  input  logic [Rows-1:0]      load_i,   // of a row's weights
  input  logic [1:0][7:0]      wgt_i,
  input  logic [Rows-1:0]      swap_i,   // one cycle before the first row that uses them
  input  logic [Rows-1:0]      valid_i,  // skewed: row r one cycle after row r - 1
  input  logic [Rows-1:0][7:0] act_i,
  input  logic [1:0][31:0]     sum_i,    // with row 0
  output logic [1:0][31:0]     sum_o     // Rows + 1 cycles later
);

  localparam int unsigned LowW = 18;  // of the lower column in the cascade
  localparam int unsigned FactorW = 27;
  localparam int unsigned CascadeW = 48;

  typedef logic signed [CascadeW-1:0] cascade_t;

  // The pre-adder of a DSP makes this factor.
  function automatic logic signed [FactorW-1:0] pack(logic [1:0][7:0] w);
    return FactorW'($signed({w[1], LowW'(0)})) + FactorW'($signed(w[0]));
  endfunction

  // The lower sum borrowed from the upper one where it is negative.
  function automatic logic [1:0][31:0] unpack(cascade_t p);
    logic signed [CascadeW-LowW-1:0] high = $signed(p[CascadeW-1:LowW]) + $signed((CascadeW - LowW)'(p[LowW-1]));
    return {$unsigned(32'(high)), $unsigned(32'($signed(p[LowW-1:0])))};
  endfunction

  for (genvar r = 0; r < Rows; r++) begin : gen_row
    logic [1:0][7:0]  shadow_q, wgt_q;
    logic [1:0][31:0] sum_q;  // what comes in from above waits beside the cascade
    cascade_t         above, cascade_q;

    if (r == 0) begin : gen_first
      assign above = '0;
      always_ff @(posedge clk_i) if (valid_i[r]) sum_q <= sum_i;
    end else begin : gen_next
      assign above = gen_row[r-1].cascade_q;
      always_ff @(posedge clk_i) if (valid_i[r]) sum_q <= gen_row[r-1].sum_q;
    end

    always_ff @(posedge clk_i) begin
      if (load_i[r]) shadow_q <= wgt_i;
      if (swap_i[r]) wgt_q <= shadow_q;
      if (valid_i[r]) cascade_q <= above + cascade_t'(pack(wgt_q) * 18'($signed(act_i[r])));
    end
  end

  logic             valid_q;
  logic [1:0][31:0] low_high;

  assign low_high = unpack(gen_row[Rows-1].cascade_q);

  always_ff @(posedge clk_i) begin
    valid_q <= valid_i[Rows-1];
    if (valid_q) begin
      for (int unsigned c = 0; c < 2; c++) sum_o[c] <= gen_row[Rows-1].sum_q[c] + low_high[c];
    end
  end

endmodule
