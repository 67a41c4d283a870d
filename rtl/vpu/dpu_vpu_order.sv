// The words between their first beat and done, in order: a word is done when its last beat has been put away and all it
// has for PARAM is written. A numeric exception of a word that traps, or an inexact integer sum, is a fault instead.
// Results of a word must not overtake those of an earlier one: three ways lead to PARAM, and only one is open at a time.

module dpu_vpu_order
  import dpu_isa_pkg::*;
  import dpu_vpu_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,

  // the word that would begin
  /* verilator lint_off UNUSEDSIGNAL */  // a struct comes whole
  input  config_t         word_i,
  /* verilator lint_on UNUSEDSIGNAL */
  output logic            ready_o,
  input  logic            begins_i,

  // 0: the last beat is put away; and the last write of 1: results, 2: row reductions, 3: column reductions
  input  logic [3:0]      event_i,
  input  logic [3:0]      event_odd_i,

  output logic            empty_o,
  output logic            done_o,
  output dpu_pkg::fault_t fault_o
);

  localparam int unsigned CountW = $clog2(WordsInPipe + 1);

  typedef struct packed {
    logic [31:0] index;
    logic        trap;
    logic [3:0]  needs;
  } entry_t;

  entry_t            wr, rd;
  logic              there, unused_ready, leaves, full, odd;
  logic [CountW-1:0] count;
  logic [3:0]        seen, seen_odd;

  assign wr.index = word_i.index;
  assign wr.trap  = word_i.trap;
  assign wr.needs = {word_i.red != ReduceNone & word_i.red_columns, word_i.red != ReduceNone & !word_i.red_columns,
                     word_i.d_buffer == BufferParam, 1'b1};

  dpu_fifo #(
    .Width($bits(entry_t)),
    .Depth(WordsInPipe)
  ) u_words (
    .clk_i,
    .rst_ni,
    .clear_i   (1'b0),
    .wr_valid_i(begins_i),
    .wr_ready_o(unused_ready),
    .wr_data_i (wr),
    .rd_valid_o(there),
    .rd_ready_i(leaves),
    .rd_data_o (rd),
    .count_o   (count)
  );

  // Each event belongs to the oldest word that needs it.
  for (genvar k = 0; k < 4; k++) begin : gen_event
    logic              unused_event_ready;
    logic [CountW-1:0] unused_count;
    dpu_fifo #(
      .Width(1),
      .Depth(WordsInPipe)
    ) u_event (
      .clk_i,
      .rst_ni,
      .clear_i   (1'b0),
      .wr_valid_i(event_i[k]),
      .wr_ready_o(unused_event_ready),
      .wr_data_i (event_odd_i[k]),
      .rd_valid_o(seen[k]),
      .rd_ready_i(leaves & rd.needs[k]),
      .rd_data_o (seen_odd[k]),
      .count_o   (unused_count)
    );
  end

  assign leaves  = there & ((rd.needs & ~seen) == '0);
  assign odd     = ({rd.needs[3:1], rd.trap} & seen_odd) != '0;
  assign done_o  = leaves & !odd;
  assign empty_o = !there;
  assign full    = count == CountW'(WordsInPipe);
  assign fault_o = (leaves & odd) ? '{valid: 1'b1, code: ErrorNumeric, index: rd.index, address: '0} : '0;

  // Words under way by their ways to PARAM.
  logic [3:1][CountW-1:0] way_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) way_q <= '0;
    else begin
      for (int unsigned k = 1; k < 4; k++) begin
        way_q[k] <= way_q[k] + CountW'(begins_i & wr.needs[k]) - CountW'(leaves & rd.needs[k]);
      end
    end
  end

  always_comb begin
    ready_o = !full;
    for (int unsigned k = 1; k < 4; k++) begin
      for (int unsigned j = 1; j < 4; j++) if (j != k && wr.needs[k] && way_q[j] != '0) ready_o = 1'b0;
    end
  end

endmodule
