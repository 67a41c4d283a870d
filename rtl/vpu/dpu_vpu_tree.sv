// The trees of a row reduction: L columns a beat, then pairs of beats, one register a level; squares have a tree of
// their own. A row's value over the columns of a tile comes out, in the order of the rows.
// Missing beats of the last tile count as +0 (a maximum passes on alone); missing columns are neutral at the input.

module dpu_vpu_tree
  import dpu_vpu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,

  // a beat
  input  logic                   valid_i,
  input  logic                   maximum_i,
  input  logic                   squares_i,
  input  logic [6:0]             g_i,
  input  logic                   row_last_i,
  input  logic [Lanes-1:0][31:0] element_i,
  input  logic [Lanes-1:0][31:0] square_i,

  output logic                   valid_o,
  output logic [31:0]            sum_o,
  output logic [31:0]            sum_sq_o
);

  localparam int unsigned Levels = $clog2(Lanes);
  localparam int unsigned PairLevels = $clog2(Cols / Lanes);
  localparam int unsigned Total = Levels + PairLevels;

  // What goes with a beat through the tree; level k is behind k additions.
  typedef struct packed {
    logic       maximum;
    logic       squares;
    logic [6:0] g;
    logic       last;
  } tag_t;

  /* verilator lint_off UNUSEDSIGNAL */  // not every level needs all of it
  tag_t [Total:0]       tag;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [Total:0][31:0] sum, sum_sq;  // where a level has one value: from Levels on
  logic [Total:0]       valid;  // a value leaves level k

  assign valid[0] = valid_i;
  assign tag[0]   = '{maximum: maximum_i, squares: squares_i, g: g_i, last: row_last_i};

  for (genvar k = 1; k <= Total; k++) begin : gen_tag
    tag_t tag_q;
    always_ff @(posedge clk_i) begin
      if (valid[k-1]) begin
        tag_q <= tag[k-1];
        if (k > Levels) tag_q.g <= {1'b0, tag[k-1].g[6:1]};
      end
    end
    assign tag[k] = tag_q;
  end

  // Within a beat.
  for (genvar k = 0; k <= Levels; k++) begin : gen_level
    localparam int unsigned N = Lanes >> k;
    logic [N-1:0][31:0] x, x_sq;
    if (k == 0) begin : gen_in
      assign x    = element_i;
      assign x_sq = square_i;
    end else begin : gen_add
      for (genvar n = 0; n < N; n++) begin : gen_node
        logic [31:0] x_q, x_sq_q;
        always_ff @(posedge clk_i) begin
          if (valid[k-1]) begin
            x_q <= combine(tag[k-1].maximum, gen_level[k-1].x[2*n], gen_level[k-1].x[2*n+1]);
            if (tag[k-1].squares) begin
              x_sq_q <= dpu_fp_pkg::fadd_positive(gen_level[k-1].x_sq[2*n], gen_level[k-1].x_sq[2*n+1]);
            end
          end
        end
        assign x[n]    = x_q;
        assign x_sq[n] = x_sq_q;
      end
    end
    if (k > 0) begin : gen_valid
      logic valid_q;
      always_ff @(posedge clk_i or negedge rst_ni) begin
        if (!rst_ni) valid_q <= 1'b0;
        else         valid_q <= valid[k-1];
      end
      assign valid[k] = valid_q;
    end
    if (k < Levels) begin : gen_none
      assign sum[k]    = '0;
      assign sum_sq[k] = '0;
    end
  end
  assign sum[Levels]    = gen_level[Levels].x[0];
  assign sum_sq[Levels] = gen_level[Levels].x_sq[0];

  // Pairs of beats: the even one waits for the odd one; the last one of a row has a missing partner, +0.
  for (genvar k = Levels + 1; k <= Total; k++) begin : gen_pair
    logic [31:0] even_q, even_sq_q, sum_q, sum_sq_q, partner, partner_sq;
    logic        goes, waits;
    assign waits      = valid[k-1] & !tag[k-1].g[0] & !tag[k-1].last;
    assign goes       = valid[k-1] & (tag[k-1].g[0] | tag[k-1].last);
    assign partner    = tag[k-1].g[0] ? even_q : (tag[k-1].maximum ? sum[k-1] : '0);
    assign partner_sq = tag[k-1].g[0] ? even_sq_q : '0;
    logic goes_q;
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) goes_q <= 1'b0;
      else         goes_q <= goes;
    end
    always_ff @(posedge clk_i) begin
      if (waits) begin
        even_q    <= sum[k-1];
        even_sq_q <= sum_sq[k-1];
      end
      if (goes) begin
        sum_q <= combine(tag[k-1].maximum, partner, sum[k-1]);
        if (tag[k-1].squares) sum_sq_q <= dpu_fp_pkg::fadd_positive(partner_sq, sum_sq[k-1]);
      end
    end
    assign valid[k]  = goes_q;
    assign sum[k]    = sum_q;
    assign sum_sq[k] = sum_sq_q;
  end

  assign valid_o  = valid[Total];
  assign sum_o    = sum[Total];
  assign sum_sq_o = sum_sq[Total];

endmodule
