// Weight-stationary array of R x C cells (R = C = Cols). Rows of activations enter, skewed by a cycle an array row and
// a cycle a block of columns; sums flow down, start from zero or from the column vector, and leave de-skewed.
// A row handed in at cycle t leaves, whole, at cycle t + array_latency.

module dpu_mxu_array
  import dpu_mxu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter bit          Packed = 1'b0,
  localparam int unsigned RowW = $clog2(Cols)
) (
  input  logic                  clk_i,
  input  logic                  rst_ni,

  // weights, rows 0 .. R - 1 of a tile in order
  input  logic                  shadow_valid_i,
  input  logic [RowW-1:0]       shadow_row_i,
  input  logic [Cols-1:0][7:0]  shadow_data_i,

  // activations; `swap` with the first row of a tile
  input  logic                  valid_i,
  input  logic                  swap_i,
  input  logic [Cols-1:0][7:0]  act_i,
  input  logic                  column_used_i,  // the tile's sums start from column_i; both are read on the swap
  input  logic [Cols-1:0][31:0] column_i,

  output logic [Cols-1:0][31:0] sum_o
);

  localparam int unsigned Rows = Cols;
  localparam int unsigned Blocks = chains(Cols);  // along each side
  localparam int unsigned Side = Cols / Blocks;  // of a block
  localparam int unsigned Hop = Side + (Packed ? 1 : 0);  // cycles from a block to the one below

  // What goes with a row through the array: valid_q[d] at cell (r, column block g) with diagonal(r) + g = d.
  // The swap is one cycle ahead.

  localparam int unsigned Diagonals = Blocks * Hop + Blocks - 1;

  logic [Diagonals-1:0] valid_q;
  logic [Diagonals-2:0] swap_q;
  // Waiver: the last diagonal of a packed array has sums, but no cells.
  /* verilator lint_off UNUSEDSIGNAL */
  logic [Diagonals-1:0] swap;
  /* verilator lint_on UNUSEDSIGNAL */

  assign swap = {swap_q, swap_i};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= '0;
      swap_q  <= '0;
    end else begin
      valid_q <= {valid_q[Diagonals-2:0], valid_i};
      swap_q  <= swap[Diagonals-2:0];
    end
  end

  // Weights come down through one register for every block.

  logic [Blocks-1:0][Cols-1:0][7:0] shadow_data_q;
  logic [Blocks-1:0][RowW-1:0]      shadow_row_q;
  logic [Blocks-1:0]                shadow_valid_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) shadow_valid_q <= '0;
    else shadow_valid_q <= Blocks'({shadow_valid_q, shadow_valid_i});
  end

  for (genvar q = 0; q < Blocks; q++) begin : gen_shadow
    if (q == 0) begin : gen_first
      always_ff @(posedge clk_i) begin
        if (shadow_valid_i) begin
          shadow_data_q[0] <= shadow_data_i;
          shadow_row_q[0]  <= shadow_row_i;
        end
      end
    end else begin : gen_next
      always_ff @(posedge clk_i) begin
        if (shadow_valid_q[q-1]) begin
          shadow_data_q[q] <= shadow_data_q[q-1];
          shadow_row_q[q]  <= shadow_row_q[q-1];
        end
      end
    end
  end

  // The skew of the rows: byte r of an activation word is used diagonal(r) cycles after byte 0.

  for (genvar r = 0; r < Rows; r++) begin : gen_skew
    localparam int unsigned D = r + (r / Side) * (Hop - Side);
    logic [Cols-1:r][7:0] act_q;
    if (r == 0) begin : gen_first
      always_ff @(posedge clk_i) if (valid_i) act_q <= act_i;
    end else if (r % Side != 0 || Hop == Side) begin : gen_next
      always_ff @(posedge clk_i) if (valid_q[D-1]) act_q <= gen_skew[r-1].act_q[Cols-1:r];
    end else begin : gen_hop
      logic [Cols-1:r][7:0] wait_q;
      always_ff @(posedge clk_i) begin
        if (valid_q[D-2]) wait_q <= gen_skew[r-1].act_q[Cols-1:r];
        if (valid_q[D-1]) act_q <= wait_q;
      end
    end
  end

  // Blocks of columns.

  for (genvar g = 0; g < Blocks; g++) begin : gen_column
    logic [Rows-1:0][7:0] act;
    logic                 column_used;  // with this block's swap

    if (g == 0) begin : gen_first
      for (genvar r = 0; r < Rows; r++) begin : gen_act
        assign act[r] = gen_skew[r].act_q[r];
      end
      assign column_used = column_used_i;
    end else begin : gen_next
      logic [Rows-1:0][7:0] act_q;
      logic                 column_used_q;
      always_ff @(posedge clk_i) begin
        act_q         <= gen_column[g-1].act;
        column_used_q <= gen_column[g-1].column_used;
      end
      assign act         = act_q;
      assign column_used = column_used_q;
    end

    // What the sums start from, taken over with the first row of a tile.
    logic [Side-1:0][31:0] top_q;
    always_ff @(posedge clk_i) begin
      if (swap[g]) begin
        for (int unsigned c = 0; c < Side; c++) top_q[c] <= column_used ? column_i[g*Side+c] : '0;
      end
    end

    for (genvar q = 0; q < Blocks; q++) begin : gen_block
      logic [Side-1:0][31:0] above, sum;
      logic [Side-1:0]       load;

      if (q == 0) begin : gen_top
        assign above = top_q;
      end else begin : gen_below
        assign above = gen_block[q-1].sum;
      end
      for (genvar r = 0; r < Side; r++) begin : gen_load
        assign load[r] = shadow_valid_q[q] && shadow_row_q[q] == RowW'(q * Side + r);
      end

      dpu_mxu_chain #(
        .Rows  (Side),
        .Width (Side),
        .Packed(Packed)
      ) u_chain (
        .clk_i,
        .load_i (load),
        .wgt_i  (shadow_data_q[q][g*Side+:Side]),
        .swap_i (swap[q*Hop+g+:Side]),
        .valid_i(valid_q[q*Hop+g+:Side]),
        .act_i  (act[q*Side+:Side]),
        .sum_i  (above),
        .sum_o  (sum)
      );
    end

    // The blocks to the left wait for the last one.
    localparam int unsigned Wait = Blocks - 1 - g;
    for (genvar i = 0; i < Wait; i++) begin : gen_wait
      logic [Side-1:0][31:0] sum_q;
      if (i == 0) begin : gen_in
        always_ff @(posedge clk_i) if (valid_q[Blocks*Hop+g]) sum_q <= gen_block[Blocks-1].sum;
      end else begin : gen_on
        always_ff @(posedge clk_i) if (valid_q[Blocks*Hop+g+i]) sum_q <= gen_wait[i-1].sum_q;
      end
    end
    if (Wait == 0) begin : gen_straight
      assign sum_o[g*Side+:Side] = gen_block[Blocks-1].sum;
    end else begin : gen_waited
      assign sum_o[g*Side+:Side] = gen_wait[Wait-1].sum_q;
    end
  end

endmodule
