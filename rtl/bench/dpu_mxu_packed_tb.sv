// One weight pair a row: dpu_mxu_packed beside two columns of dpu_mxu_cells, and its cascade of one row.
// Activations and valid are skewed here, so that a whole row of eight goes in at once.
// The sums come out together, the cells' delayed by the one cycle that the packed ones take longer.

module dpu_mxu_packed_tb #(
  parameter int unsigned Rows = 8
) (
  input  logic                 clk_i,
  input  logic [Rows-1:0]      load_i,
  input  logic [1:0][7:0]      wgt_i,
  input  logic                 swap_i,
  input  logic                 valid_i,
  input  logic [Rows-1:0][7:0] act_i,
  input  logic [1:0][31:0]     sum_i,
  output logic [1:0][31:0]     packed_o,
  output logic [1:0][31:0]     cells_o
);

  logic [Rows-1:0]      swap;
  logic [Rows:0]        valid;
  logic [Rows-1:0][7:0] act;

  assign valid[0] = valid_i;

  for (genvar r = 0; r < Rows; r++) begin : gen_row
    logic [Rows-1:r][7:0] act_q;  // acts r and up, delayed by r
    logic [1:0][31:0]     above, sum;

    if (r == 0) begin : gen_first
      assign swap[r] = swap_i;
      assign act_q = act_i;
      assign above = sum_i;
    end else begin : gen_next
      always_ff @(posedge clk_i) begin
        swap[r] <= swap[r-1];
        act_q   <= gen_row[r-1].act_q[Rows-1:r];
      end
      assign above = gen_row[r-1].sum;
    end

    assign act[r] = act_q[r];

    always_ff @(posedge clk_i) valid[r+1] <= valid[r];

    dpu_mxu_cells #(
      .Width(2)
    ) u_cells (
      .clk_i,
      .load_i (load_i[r]),
      .wgt_i,
      .swap_i (swap[r]),
      .valid_i(valid[r]),
      .act_i  (act[r]),
      .sum_i  (above),
      .sum_o  (sum)
    );
  end

  dpu_mxu_packed #(
    .Rows(Rows)
  ) u_packed (
    .clk_i,
    .load_i,
    .wgt_i,
    .swap_i (swap),
    .valid_i(valid[Rows-1:0]),
    .act_i  (act),
    .sum_i,
    .sum_o  (packed_o)
  );

  always_ff @(posedge clk_i) if (valid[Rows]) cells_o <= gen_row[Rows-1].sum;

endmodule
