// Row reductions: the trees over the columns of a tile, then tile by tile the sum (or maximum) with what PARAM holds for
// the row, read and written L rows at a time. The first tile starts afresh, or from PARAM if the word accumulates.
// The trees never wait; what is behind them may wait for PARAM, its buffer takes `Room` rows.

module dpu_vpu_rows
  import dpu_vpu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8,
  parameter int unsigned Room = 64,
  localparam int unsigned CountW = $clog2(Lanes + 1)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,

  // words that reduce rows, from their first beat on
  input  logic                   word_valid_i,
  input  reduction_t             word_i,

  // a beat: elements and squares, missing ones neutral
  input  logic                   valid_i,
  input  logic                   maximum_i,
  input  logic                   squares_i,
  input  logic [6:0]             g_i,
  input  logic                   row_last_i,
  input  logic [Lanes-1:0][31:0] element_i,
  input  logic [Lanes-1:0][31:0] square_i,
  output logic                   taken_o,  // a row has left the buffer

  output logic                   rd_req_o,
  output logic [15:0]            rd_addr_o,
  input  logic                   rd_grant_i,
  input  logic [Lanes-1:0][31:0] rd_data_i,

  output logic                   wr_valid_o,
  output logic [15:0]            wr_addr_o,
  output logic [CountW-1:0]      wr_count_o,
  output logic [Lanes-1:0][31:0] wr_data_o,
  output logic                   wr_last_o,  // of the word
  output logic                   wr_inexact_o,  // with it: an integer sum was too large
  input  logic                   wr_ready_i
);

  localparam int unsigned LaneW = (Lanes > 1) ? $clog2(Lanes) : 1;

  // The trees.
  logic        tree_valid;
  logic [31:0] tree_sum, tree_sq;

  dpu_vpu_tree #(
    .Cols (Cols),
    .Lanes(Lanes)
  ) u_tree (
    .clk_i,
    .rst_ni,
    .valid_i,
    .maximum_i,
    .squares_i,
    .g_i,
    .row_last_i,
    .element_i,
    .square_i,
    .valid_o   (tree_valid),
    .sum_o     (tree_sum),
    .sum_sq_o  (tree_sq)
  );

  // Rows that wait to be accumulated.
  logic        row_valid, row_ready, rows_fit;
  logic [31:0] row_sum, row_sq;
  logic [$clog2(Room+1)-1:0] unused_rows;

  dpu_fifo #(
    .Width(64),
    .Depth(Room)
  ) u_rows (
    .clk_i,
    .rst_ni,
    .clear_i   (1'b0),
    .wr_valid_i(tree_valid),
    .wr_ready_o(rows_fit),
    .wr_data_i ({tree_sq, tree_sum}),
    .rd_valid_o(row_valid),
    .rd_ready_i(row_ready),
    .rd_data_o ({row_sq, row_sum}),
    .count_o   (unused_rows)
  );

  /* verilator lint_off UNUSEDSIGNAL */  // a struct comes whole
  reduction_t word;
  /* verilator lint_on UNUSEDSIGNAL */
  logic       word_there, word_ends, unused_word_ready;
  logic [$clog2(WordsInPipe+1)-1:0] unused_words;

  dpu_fifo #(
    .Width($bits(reduction_t)),
    .Depth(WordsInPipe)
  ) u_words (
    .clk_i,
    .rst_ni,
    .clear_i   (1'b0),
    .wr_valid_i(word_valid_i),
    .wr_ready_o(unused_word_ready),
    .wr_data_i (word_i),
    .rd_valid_o(word_there),
    .rd_ready_i(word_ends),
    .rd_data_o (word),
    .count_o   (unused_words)
  );

  // Groups of up to L rows, tile by tile. Three walks: reading ahead, adding, writing.
  logic [15:0] groups;
  assign groups = 16'((32'(word.rows) + Lanes - 1) / Lanes);

  // Reading ahead, of tile 0 only when the word accumulates.
  logic [15:0]           rd_group_q, ahead_q;  // ahead: groups read but not written
  logic [7:0]            rd_tile_q;
  logic                  rd_second_q, rd_all_q, reads, rd_step, rd_word_done;
  logic                  answer_q, answer_first_q, answer_second_q;  // a line is complete; one of its two parts
  logic [1:0]            lines_q, lines_due_q;  // filled; filled or on their way
  logic                  line_wr_q, line_rd_q, line_pop, wr_group_done;
  logic [Lanes-1:0][31:0] line_mem [2];
  logic [Lanes-1:0][31:0] line_sq_mem [2];

  assign reads = word.accumulate | (rd_tile_q != '0);
  assign rd_req_o = word_there & !rd_all_q & reads & (lines_due_q != 2'd2 | rd_second_q) &
                    (rd_tile_q == '0 | ahead_q < groups | rd_second_q);
  assign rd_addr_o = (rd_second_q ? word.second : word.at) + rd_group_q * 16'(Lanes);
  // A group that needs no reading is stepped over.
  assign rd_step = word_there & !rd_all_q & (reads ? rd_req_o & rd_grant_i & (rd_second_q | !word.squares) : 1'b1);
  assign rd_word_done = rd_step & (32'(rd_group_q) + 1 == 32'(groups)) & (32'(rd_tile_q) + 1 == 32'(word.tiles));

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      rd_group_q      <= '0;
      rd_tile_q       <= '0;
      rd_second_q     <= 1'b0;
      rd_all_q        <= 1'b0;
      ahead_q         <= '0;
      answer_q        <= 1'b0;
      answer_first_q  <= 1'b0;
      answer_second_q <= 1'b0;
      lines_q         <= '0;
      lines_due_q     <= '0;
      line_wr_q       <= 1'b0;
      line_rd_q       <= 1'b0;
    end else begin
      if (rd_req_o && rd_grant_i) rd_second_q <= word.squares & !rd_second_q;
      if (rd_step) begin
        rd_group_q <= (32'(rd_group_q) + 1 == 32'(groups)) ? '0 : rd_group_q + 16'd1;
        if (32'(rd_group_q) + 1 == 32'(groups)) rd_tile_q <= rd_word_done ? '0 : rd_tile_q + 8'd1;
      end
      if (word_ends) rd_all_q <= 1'b0;
      else if (rd_word_done) rd_all_q <= 1'b1;
      ahead_q         <= ahead_q + 16'(rd_step) - 16'(wr_group_done);
      answer_q        <= rd_req_o & rd_grant_i & (rd_second_q | !word.squares);
      answer_first_q  <= rd_req_o & rd_grant_i & !rd_second_q;
      answer_second_q <= rd_second_q;
      lines_due_q     <= lines_due_q + 2'((rd_req_o && rd_grant_i && !rd_second_q)) - 2'(line_pop);
      lines_q         <= lines_q + 2'(answer_q) - 2'(line_pop);
      if (answer_q) line_wr_q <= !line_wr_q;
      if (line_pop) line_rd_q <= !line_rd_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (answer_first_q) line_mem[line_wr_q] <= rd_data_i;
    if (answer_q && answer_second_q) line_sq_mem[line_wr_q] <= rd_data_i;
  end

  // Adding: one row a cycle.
  logic [15:0] row_q;
  logic [7:0]  tile_q;
  logic        adds, group_last, row_last, tile_last, group_done;
  logic [15:0] row_at_q;  // of the group
  logic [1:0]  out_ready_q;  // results of two groups, to be written
  logic        out_wr_q, out_rd_q, out_done;

  assign adds       = word.accumulate | (tile_q != '0);
  assign row_last   = 32'(row_q) + 1 == 32'(word.rows);
  assign tile_last  = 32'(tile_q) + 1 == 32'(word.tiles);
  assign group_last = row_last | (32'(row_q) % Lanes == Lanes - 1);
  assign row_ready  = word_there & (!adds | lines_q != '0) & !out_ready_q[out_wr_q];
  assign taken_o    = row_ready & row_valid;
  assign line_pop   = taken_o & group_last & adds;
  assign group_done = taken_o & group_last;

  // The results of a group, and where they go.
  typedef struct packed {
    logic [15:0]       at;
    logic [CountW-1:0] count;
    logic              last;
    logic              inexact;
    logic              squares;
    logic [15:0]       second;
  } group_t;

  logic [Lanes-1:0][1:0][31:0] out, out_sq;
  group_t                      group_q [2];
  logic                        wr_second_q;
  logic [31:0]                 total, total_sq;
  logic [LaneW-1:0]            lane;
  logic                        inexact_q, inexact;

  assign lane     = LaneW'(32'(row_q) % Lanes);
  assign total    = (taken_o && adds) ? combine(word.maximum, line_mem[line_rd_q][lane], row_sum) : row_sum;
  assign total_sq = (taken_o && adds && word.squares) ? dpu_fp_pkg::fadd(line_sq_mem[line_rd_q][lane], row_sq) : row_sq;
  assign inexact  = word.exact & !word.accumulate & tile_last & (total[30:0] > ExactLimit);

  always_ff @(posedge clk_i) begin
    if (group_done) begin
      group_q[out_wr_q] <= '{at: word.at + row_at_q, count: CountW'(lane) + CountW'(1), last: row_last & tile_last,
                             inexact: inexact_q | inexact, squares: word.squares, second: word.second + row_at_q};
    end
  end

  // Registers of each lane: a memory of which a part is written would take one of its own for every bit.
  for (genvar l = 0; l < Lanes; l++) begin : gen_result
    logic [1:0][31:0] out_q, out_sq_q;
    always_ff @(posedge clk_i) begin
      if (taken_o && lane == LaneW'(l)) begin
        out_q[out_wr_q]    <= total;
        out_sq_q[out_wr_q] <= total_sq;
      end
    end
    assign out[l]    = out_q;
    assign out_sq[l] = out_sq_q;
  end

  assign word_ends = taken_o & row_last & tile_last;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      row_q       <= '0;
      row_at_q    <= '0;
      tile_q      <= '0;
      inexact_q   <= 1'b0;
      out_wr_q    <= 1'b0;
      out_rd_q    <= 1'b0;
      out_ready_q <= '0;
      wr_second_q <= 1'b0;
    end else begin
      if (taken_o) begin
        row_q     <= row_last ? '0 : row_q + 16'd1;
        inexact_q <= (row_last & tile_last) ? 1'b0 : inexact_q | inexact;
        if (row_last) tile_q <= tile_last ? '0 : tile_q + 8'd1;
        if (group_last) row_at_q <= row_last ? '0 : row_at_q + 16'(Lanes);
      end
      if (group_done) begin
        out_wr_q              <= !out_wr_q;
        out_ready_q[out_wr_q] <= 1'b1;
      end
      if (wr_valid_o && wr_ready_i) wr_second_q <= group_q[out_rd_q].squares & !wr_second_q;
      if (out_done) begin
        out_ready_q[out_rd_q] <= 1'b0;
        out_rd_q              <= !out_rd_q;
      end
    end
  end

  // Writing.
  assign out_done      = wr_valid_o & wr_ready_i & (wr_second_q | !group_q[out_rd_q].squares);
  assign wr_group_done = out_done;
  assign wr_valid_o    = out_ready_q[out_rd_q];
  assign wr_addr_o     = wr_second_q ? group_q[out_rd_q].second : group_q[out_rd_q].at;
  assign wr_count_o    = group_q[out_rd_q].count;
  for (genvar l = 0; l < Lanes; l++) begin : gen_out
    assign wr_data_o[l] = wr_second_q ? out_sq[l][out_rd_q] : out[l][out_rd_q];
  end
  assign wr_last_o     = group_q[out_rd_q].last & (wr_second_q | !group_q[out_rd_q].squares);
  assign wr_inexact_o  = group_q[out_rd_q].inexact;

`ifndef SYNTHESIS
  // Waiver: the assertion samples the asynchronous reset on purpose.
  /* verilator lint_off SYNCASYNCNET */
  RowsFit: assert property (@(posedge clk_i) disable iff (!rst_ni)
    !(tree_valid && !rows_fit));
  /* verilator lint_on SYNCASYNCNET */
`endif

endmodule
