// A block of the array: Rows rows of Width columns, one DSP cascade a column, or a pair of columns where it is packed.
// Valid, swap and activations come in skewed, row r one cycle after row r - 1; the swap one cycle before its first row.
// sum_o belongs to the row whose sum_i came in with row 0, Rows cycles before (packed: Rows + 1).

module dpu_mxu_chain #(
  parameter int unsigned Rows = 8,
  parameter int unsigned Width = 8,
  parameter bit          Packed = 1'b0
) (
  input  logic                   clk_i,
  input  logic [Rows-1:0]        load_i,  // of a row's weights
  input  logic [Width-1:0][7:0]  wgt_i,
  input  logic [Rows-1:0]        swap_i,
  input  logic [Rows-1:0]        valid_i,
  input  logic [Rows-1:0][7:0]   act_i,
  input  logic [Width-1:0][31:0] sum_i,
  output logic [Width-1:0][31:0] sum_o
);
  /* verilator inline_module */

  if (Packed) begin : gen_packed
    for (genvar c = 0; c < Width; c += 2) begin : gen_pair
      dpu_mxu_packed #(
        .Rows(Rows)
      ) u_pair (
        .clk_i,
        .load_i,
        .wgt_i(wgt_i[c+:2]),
        .swap_i,
        .valid_i,
        .act_i,
        .sum_i(sum_i[c+:2]),
        .sum_o(sum_o[c+:2])
      );
    end
  end else begin : gen_plain
    for (genvar r = 0; r < Rows; r++) begin : gen_row
      logic [Width-1:0][31:0] above, sum;

      if (r == 0) begin : gen_first
        assign above = sum_i;
      end else begin : gen_next
        assign above = gen_row[r-1].sum;
      end

      dpu_mxu_cells #(
        .Width(Width)
      ) u_cells (
        .clk_i,
        .load_i (load_i[r]),
        .wgt_i,
        .swap_i (swap_i[r]),
        .valid_i(valid_i[r]),
        .act_i  (act_i[r]),
        .sum_i  (above),
        .sum_o  (sum)
      );
    end

    assign sum_o = gen_row[Rows-1].sum;
  end

endmodule
