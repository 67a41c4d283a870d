// Cells of one array row that share an activation register: each multiplies it by its weight, adds the sum from above.
// A weight waits in the shadow register (DSP register B1) and becomes the used one (B2) on the swap.
// Cells below each other are a DSP cascade: sum_i is PCIN, sum_o is PCOUT.

module dpu_mxu_cells #(
  parameter int unsigned Width = 8
) (
  input  logic                   clk_i,
  input  logic                   load_i,
  input  logic [Width-1:0][7:0]  wgt_i,
  input  logic                   swap_i,   // takes effect for the next row
  input  logic                   valid_i,
  input  logic [7:0]             act_i,
  input  logic [Width-1:0][31:0] sum_i,
  output logic [Width-1:0][31:0] sum_o
);
  /* verilator inline_module */

  logic [Width-1:0][7:0] shadow_q, wgt_q;

  always_ff @(posedge clk_i) begin
    if (load_i) shadow_q <= wgt_i;
    if (swap_i) wgt_q <= shadow_q;
    if (valid_i) begin
      for (int unsigned c = 0; c < Width; c++) begin
        sum_o[c] <= sum_i[c] + $unsigned(32'($signed(act_i) * $signed(wgt_q[c])));
      end
    end
  end

endmodule
