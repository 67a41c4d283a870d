// Column reductions: Accumulators values a column, row i into number i mod 8, then at the end of a tile their tree, then
// the initial value of PARAM. One adder a lane (and one for squares) does all of it, as a pipeline: read, add, write.
// The tail of a tile takes as long as dpu_vpu_sequence leaves between tiles; results wait for PARAM in a buffer.

module dpu_vpu_columns
  import dpu_vpu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8,
  localparam int unsigned CountW = $clog2(Lanes + 1)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,

  // words that reduce columns, from their first beat on; room: the results of another tile fit
  input  logic                   word_valid_i,
  input  reduction_t             word_i,
  input  logic                   tile_begins_i,
  output logic                   room_o,

  // a beat
  input  logic                   valid_i,
  input  logic                   fresh_i,
  input  logic [2:0]             accumulator_i,
  input  logic [6:0]             g_i,
  input  logic                   tile_last_i,
  input  logic [Lanes-1:0][31:0] element_i,
  input  logic [Lanes-1:0][31:0] square_i,

  output logic                   rd_req_o,  // never refused
  output logic [15:0]            rd_addr_o,
  input  logic [Lanes-1:0][31:0] rd_data_i,

  output logic                   wr_valid_o,
  output logic [15:0]            wr_addr_o,
  output logic [CountW-1:0]      wr_count_o,
  output logic [Lanes-1:0][31:0] wr_data_o,
  output logic                   wr_last_o,
  output logic                   wr_inexact_o,
  input  logic                   wr_ready_i
);

  localparam int unsigned Beats = Cols / Lanes;
  localparam int unsigned IndexW = $clog2(Beats * Accumulators);
  localparam int unsigned Tiles = 4;  // under way, from first beat to last result
  localparam int unsigned Slots = 2 * Tiles * Beats;  // results, squares too

  reduction_t word;
  logic       unused_word_there, word_ends, unused_word_ready;
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
    .rd_valid_o(unused_word_there),
    .rd_ready_i(word_ends),
    .rd_data_o (word),
    .count_o   (unused_words)
  );

  // The tail: level 0 adds neighbours, levels 1 and 2 what is left, level 3 the initial values. Two idle cycles between
  // levels let the last sum of one be written before the next reads it.
  typedef enum logic [1:0] {Rest, Wait, Work} state_e;
  state_e     state_q;
  logic [1:0] level_q, wait_q;
  logic [2:0] pair_q;  // of the level
  logic [6:0] g_q, last_g;
  logic       second_q;  // level 3: the squares' turn
  logic [7:0] tile_q;
  logic       tile_last, level_last, g_last, pair_last, tail_last, sum_done;

  assign tile_last  = 32'(tile_q) + 1 == 32'(word.tiles);
  assign last_g     = tile_last ? 7'((32'(word.valid) - 1) / Lanes) : 7'(Beats - 1);
  assign level_last = level_q == (word.accumulate ? 2'd3 : 2'd2);
  assign pair_last  = (level_q == 2'd0) ? pair_q == 3'd3 : (level_q == 2'd1) ? pair_q == 3'd1 :
                      (level_q == 2'd2) | second_q | !word.squares;
  assign g_last     = g_q == last_g;
  assign sum_done   = (state_q == Work) & pair_last & g_last;
  assign tail_last  = sum_done & level_last;
  assign word_ends  = tail_last & tile_last;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q  <= Rest;
      level_q  <= '0;
      wait_q   <= '0;
      pair_q   <= '0;
      g_q      <= '0;
      second_q <= 1'b0;
      tile_q   <= '0;
    end else begin
      case (state_q)
        Rest: if (valid_i && tile_last_i) begin
          state_q <= Wait;
          wait_q  <= 2'd1;
          level_q <= '0;
        end
        Wait: begin
          wait_q <= wait_q - 2'd1;
          if (wait_q == '0) state_q <= Work;
        end
        default: begin
          if (level_q == 2'd3) second_q <= !pair_last;
          else pair_q <= pair_last ? '0 : pair_q + 3'd1;
          if (pair_last) g_q <= g_last ? '0 : g_q + 7'd1;
          if (sum_done) begin
            level_q <= level_q + 2'd1;
            state_q <= Wait;
            wait_q  <= 2'd1;
          end
          if (tail_last) begin
            state_q <= Rest;
            tile_q  <= tile_last ? '0 : tile_q + 8'd1;
          end
        end
      endcase
    end
  end

  // One operation enters: of a beat, or of the tail. `left` and `right` are accumulators.
  typedef struct packed {
    logic       fresh;  // no addition: the element starts an accumulator
    logic       tail;
    logic       leaf;  // of the tree: an accumulator may be empty
    logic       root;
    logic       initial_value;
    logic       second;  // initial values: of the squares
    logic       result;
    logic       tile_end;  // the last result of a tile
    logic       last;  // of the word
    logic [6:0] g;
    logic [2:0] left;
    logic [2:0] right;
  } operation_t;

  /* verilator lint_off UNUSEDSIGNAL */  // not every stage needs all of it
  operation_t op, op_1_q, op_2_q, op_3_q;
  /* verilator lint_on UNUSEDSIGNAL */
  logic       op_valid, valid_1_q, valid_2_q, valid_3_q;

  assign op_valid = valid_i | (state_q == Work);
  always_comb begin
    op = '0;
    if (state_q == Work) begin
      op.tail          = 1'b1;
      op.leaf          = level_q == 2'd0;
      op.root          = level_q == 2'd2;
      op.initial_value = level_q == 2'd3;
      op.second        = second_q;
      op.result        = level_last;
      op.tile_end      = tail_last;
      op.last          = tail_last & tile_last;
      op.g             = g_q;
      case (level_q)
        2'd0:    {op.left, op.right} = {pair_q[1:0], 1'b0, pair_q[1:0], 1'b1};
        2'd1:    {op.left, op.right} = {pair_q[0], 2'b00, pair_q[0], 2'b10};
        default: {op.left, op.right} = {3'b000, 3'b100};
      endcase
    end else begin
      op.fresh = fresh_i;
      op.g     = g_i;
      op.left  = accumulator_i;
    end
  end

  assign rd_req_o  = (state_q == Work) & (level_q == 2'd3);
  assign rd_addr_o = (second_q ? word.second : word.at) + 16'(tile_q) * 16'(Cols) + 16'(g_q) * 16'(Lanes);

  // Stage 1: elements and read data arrive. Stage 2: both operands. Stage 3: the sum, which is written.
  logic [Lanes-1:0][31:0] sum_3, sum_sq_3;
  logic [15:0]            at_1_q, at_2_q, at_3_q;
  logic [CountW-1:0]      count_1_q, count_2_q, count_3_q;
  logic                   maximum_1_q, maximum_2_q, squares_1_q, squares_2_q, squares_3_q, absolute_1_q;
  logic                   exact_1_q, exact_2_q, exact_3_q;
  logic [3:0]             rows_1_q;  // accumulators that have seen a row

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {valid_1_q, valid_2_q, valid_3_q} <= '0;
    else         {valid_1_q, valid_2_q, valid_3_q} <= {op_valid, valid_1_q, valid_2_q};
  end

  always_ff @(posedge clk_i) begin
    if (op_valid) begin
      op_1_q       <= op;
      at_1_q       <= rd_addr_o;
      count_1_q    <= (tile_last & g_last) ? CountW'(32'(word.valid) - 32'(g_q) * Lanes) : CountW'(Lanes);
      maximum_1_q  <= word.maximum;
      absolute_1_q <= word.absolute;
      squares_1_q  <= word.squares;
      exact_1_q    <= word.exact;
      rows_1_q     <= (word.rows > 16'd8) ? 4'd8 : word.rows[3:0];
    end
    if (valid_1_q) begin
      op_2_q      <= op_1_q;
      at_2_q      <= at_1_q;
      count_2_q   <= count_1_q;
      maximum_2_q <= maximum_1_q;
      squares_2_q <= squares_1_q;
      exact_2_q   <= exact_1_q;
    end
    if (valid_2_q) begin
      op_3_q      <= op_2_q;
      at_3_q      <= at_2_q;
      count_3_q   <= count_2_q;
      squares_3_q <= squares_2_q;
      exact_3_q   <= exact_2_q;
    end
  end

  logic [IndexW-1:0] left_1, right_1, left_3;
  logic              left_empty, right_empty;  // accumulators of rows that the word does not have
  logic [31:0]       neutral;

  assign left_1      = IndexW'({op_1_q.g, op_1_q.left});
  assign right_1     = IndexW'({op_1_q.g, op_1_q.right});
  assign left_3      = IndexW'({op_3_q.g, op_3_q.left});
  assign left_empty  = op_1_q.leaf & ({1'b0, op_1_q.left} >= rows_1_q);
  assign right_empty = op_1_q.leaf & ({1'b0, op_1_q.right} >= rows_1_q);
  assign neutral     = !maximum_1_q ? '0 : absolute_1_q ? AbsmaxFloor : MinusInf;

  for (genvar l = 0; l < Lanes; l++) begin : gen_lane
    logic [31:0] mem [Beats*Accumulators];
    logic [31:0] mem_sq [Beats*Accumulators];
    logic [31:0] element_q, square_q, left_q, right_q, left_sq_q, right_sq_q, sum_q, sum_sq_q;

    always_ff @(posedge clk_i) begin
      if (valid_i) begin
        element_q <= element_i[l];
        square_q  <= square_i[l];
      end
      if (valid_1_q) begin
        left_q  <= left_empty ? neutral : mem[left_1];
        right_q <= op_1_q.initial_value ? rd_data_i[l] :
                   !op_1_q.tail ? element_q : right_empty ? neutral : mem[right_1];
        if (squares_1_q) begin
          left_sq_q  <= left_empty ? '0 : mem_sq[left_1];
          right_sq_q <= op_1_q.initial_value ? rd_data_i[l] :
                        !op_1_q.tail ? square_q : right_empty ? '0 : mem_sq[right_1];
        end
      end
      if (valid_2_q) begin
        sum_q <= op_2_q.fresh ? right_q : combine(maximum_2_q, left_q, right_q);
        if (squares_2_q) sum_sq_q <= op_2_q.fresh ? right_sq_q : dpu_fp_pkg::fadd(left_sq_q, right_sq_q);
      end
      if (valid_3_q && !op_3_q.initial_value) begin
        mem[left_3] <= sum_q;
        if (squares_3_q) mem_sq[left_3] <= sum_sq_q;
      end
    end

    assign sum_3[l]    = sum_q;
    assign sum_sq_3[l] = sum_sq_q;
  end

  // An integer sum before its initial value; the error is the word's, whichever column has it.
  logic inexact_q, inexact;
  always_comb begin
    inexact = 1'b0;
    if (valid_3_q && exact_3_q && op_3_q.root) begin
      for (int unsigned l = 0; l < Lanes; l++) begin
        if (CountW'(l) < count_3_q && sum_3[l][30:0] > ExactLimit) inexact = 1'b1;
      end
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) inexact_q <= 1'b0;
    else if (valid_3_q && op_3_q.result && op_3_q.last) inexact_q <= 1'b0;
    else inexact_q <= inexact_q | inexact;
  end

  // Results: sums and squares of a beat together, or one of them after its initial value.
  typedef struct packed {
    logic                   has_sum;
    logic                   has_square;
    logic                   tile_end;
    logic                   last;
    logic                   inexact;
    logic [15:0]            at;
    logic [15:0]            second;
    logic [CountW-1:0]      count;
    logic [Lanes-1:0][31:0] sum;
    logic [Lanes-1:0][31:0] square;
  } result_t;

  result_t wr, rd;
  logic    results_fit, rd_valid, rd_done, both_q;
  logic [$clog2(Slots+1)-1:0] unused_held;
  logic [15:0]                second_offset_1_q, second_offset_2_q, second_offset_3_q;

  always_ff @(posedge clk_i) begin
    if (op_valid) second_offset_1_q <= word.second - word.at;
    if (valid_1_q) second_offset_2_q <= second_offset_1_q;
    if (valid_2_q) second_offset_3_q <= second_offset_2_q;
  end

  assign wr.has_sum    = !(op_3_q.initial_value & op_3_q.second);
  assign wr.has_square = squares_3_q & (!op_3_q.initial_value | op_3_q.second);
  assign wr.tile_end   = op_3_q.tile_end;
  assign wr.last       = op_3_q.last;
  assign wr.inexact    = inexact | inexact_q;
  assign wr.at         = at_3_q;
  // With an initial value the address is that of the vector it was read from.
  assign wr.second     = at_3_q + (op_3_q.initial_value ? '0 : second_offset_3_q);
  assign wr.count      = count_3_q;
  assign wr.sum        = sum_3;
  assign wr.square     = sum_sq_3;

  dpu_fifo #(
    .Width($bits(result_t)),
    .Depth(Slots)
  ) u_results (
    .clk_i,
    .rst_ni,
    .clear_i   (1'b0),
    .wr_valid_i(valid_3_q & op_3_q.result),
    .wr_ready_o(results_fit),
    .wr_data_i (wr),
    .rd_valid_o(rd_valid),
    .rd_ready_i(rd_done),
    .rd_data_o (rd),
    .count_o   (unused_held)
  );

  logic square_turn;
  assign square_turn  = both_q | !rd.has_sum;
  assign rd_done      = wr_valid_o & wr_ready_i & (square_turn | !rd.has_square);
  assign wr_valid_o   = rd_valid;
  assign wr_addr_o    = square_turn ? rd.second : rd.at;
  assign wr_count_o   = rd.count;
  assign wr_data_o    = square_turn ? rd.square : rd.sum;
  assign wr_last_o    = rd.last & (square_turn | !rd.has_square);
  assign wr_inexact_o = rd.inexact;

  // Tiles between their first beat and their results' leaving.
  logic [2:0] tiles_q;
  logic       tile_leaves;

  assign tile_leaves = rd_done & rd.tile_end;
  assign room_o      = tiles_q != 3'(Tiles);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      both_q  <= 1'b0;
      tiles_q <= '0;
    end else begin
      if (wr_valid_o && wr_ready_i) both_q <= rd.has_square & !square_turn;
      tiles_q <= tiles_q + 3'(tile_begins_i) - 3'(tile_leaves);
    end
  end

`ifndef SYNTHESIS
  // Waiver: the assertion samples the asynchronous reset on purpose.
  /* verilator lint_off SYNCASYNCNET */
  ResultsFit: assert property (@(posedge clk_i) disable iff (!rst_ni)
    !(valid_3_q && op_3_q.result && !results_fit));
  /* verilator lint_on SYNCASYNCNET */
`endif

endmodule
