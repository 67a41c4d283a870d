// The vector engine: VEC words, one fused pass over [rows, columns], bit for bit simulator/vpu_numpy.py.
// Words are checked, their operands fetched ahead, L elements a beat sent through the lanes, results written or reduced.
// Two words are fetched for at a time and up to WordsInPipe are in the lanes; doc/dpu_vpu.md has the timing.

module dpu_vpu
  import dpu_fp_pkg::*;
  import dpu_isa_pkg::*;
  import dpu_vpu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8,
  parameter int unsigned ActWords = 8192,
  parameter int unsigned AccWords = 2048,
  parameter int unsigned VbufWords = 4096,
  parameter int unsigned ParamWords = 16384,
  localparam int unsigned CountW = $clog2(Lanes + 1)
) (
  input  logic                          clk_i,
  input  logic                          rst_ni,
  input  logic                          stop_i,

  input  logic                          start_valid_i,
  output logic                          start_ready_o,
  input  dpu_pkg::word_t                word_i,
  input  logic [31:0]                   index_i,
  output logic                          done_o,
  output logic                          busy_o,
  output logic                          stall_o,
  output dpu_pkg::fault_t               fault_o,

  output logic                          acc_rd_valid_o,
  output logic [$clog2(AccWords)-1:0]   acc_rd_addr_o,
  input  logic                          acc_rd_ready_i,
  input  logic [Cols*32-1:0]            acc_rd_data_i,

  output logic                          vbuf_rd_valid_o,
  output logic [$clog2(VbufWords)-1:0]  vbuf_rd_addr_o,
  input  logic [Cols*16-1:0]            vbuf_rd_data_i,
  output logic                          vbuf_wr_valid_o,
  output logic [$clog2(VbufWords)-1:0]  vbuf_wr_addr_o,
  output logic [Cols*16-1:0]            vbuf_wr_data_o,

  output logic                          act_wr_valid_o,
  output logic [$clog2(ActWords)-1:0]   act_wr_addr_o,
  output logic [Cols*8-1:0]             act_wr_data_o,

  output logic                          param_rd_valid_o,
  output logic [$clog2(ParamWords)-1:0] param_rd_addr_o,
  input  logic [Lanes*32-1:0]           param_rd_data_i,
  output logic                          red_rd_valid_o,
  output logic [$clog2(ParamWords)-1:0] red_rd_addr_o,
  input  logic [Lanes*32-1:0]           red_rd_data_i,
  output logic                          param_wr_valid_o,
  output logic [$clog2(ParamWords)-1:0] param_wr_addr_o,
  output logic [CountW-1:0]             param_wr_count_o,
  output logic [Lanes*32-1:0]           param_wr_data_o,
  input  logic                          param_wr_ready_i,

  input  logic                          table_wr_valid_i,
  input  logic [0:0]                    table_wr_slot_i,
  input  logic                          table_wr_header_i,
  input  logic [7:0]                    table_wr_index_i,
  input  logic [127:0]                  table_wr_data_i,

  output logic [31:0]                   overflows_o,
  output logic [31:0]                   nans_o
);

  localparam int unsigned DRoom = 32;
  localparam int unsigned RowRoom = 64;

  // A word that faults stops the engine at once, the tile's stop comes a little later.
  dpu_pkg::fault_t issue_fault, order_fault;
  logic            halted_q, stop, order_done;
  assign fault_o = order_fault.valid ? order_fault : issue_fault;
  assign stop    = stop_i | halted_q;
  assign done_o  = order_done & !halted_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) halted_q <= 1'b0;
    else if (fault_o.valid) halted_q <= 1'b1;
  end

  // Words: checked, then fetched for.
  logic       config_valid, config_ready, issue_busy, fetch_empty, next_valid;
  config_t    config_new, current, next;
  logic       begins, ends, active, order_ready, order_empty;
  logic [1:0] loaded;

  typedef logic [Lanes-1:0][31:0] scalars_t;

  dpu_vpu_issue #(
    .Cols      (Cols),
    .ActWords  (ActWords),
    .AccWords  (AccWords),
    .VbufWords (VbufWords),
    .ParamWords(ParamWords)
  ) u_issue (
    .clk_i,
    .rst_ni,
    .stop_i        (stop),
    .start_valid_i,
    .start_ready_o,
    .word_i,
    .index_i,
    .table_loaded_i(loaded),
    .idle_i        (order_empty & fetch_empty),
    .config_valid_o(config_valid),
    .config_ready_i(config_ready),
    .config_o      (config_new),
    .busy_o        (issue_busy),
    .fault_o       (issue_fault)
  );

  logic [1:0]                             element_valid, element_pop, scalar_valid, scalar_pop;
  logic [1:0][Cols*32-1:0]                element_data;
  logic [RowScalars-1:0][Lanes-1:0][31:0] rows_data;
  logic [Factors-1:0][Lanes-1:0][31:0]    cols_data;
  control_t                               control;

  dpu_vpu_fetch #(
    .Cols      (Cols),
    .Lanes     (Lanes),
    .AccWords  (AccWords),
    .VbufWords (VbufWords),
    .ParamWords(ParamWords)
  ) u_fetch (
    .clk_i,
    .rst_ni,
    .config_valid_i  (config_valid),
    .config_ready_o  (config_ready),
    .config_i        (config_new),
    .empty_o         (fetch_empty),
    .current_o       (current),
    .next_valid_o    (next_valid),
    .next_o          (next),
    .active_i        (active),
    .ends_i          (ends),
    .element_valid_o (element_valid),
    .element_data_o  (element_data),
    .element_pop_i   (element_pop),
    .scalar_valid_o  (scalar_valid),
    .rows_o          (rows_data),
    .cols_o          (cols_data),
    .scalar_pop_i    (scalar_pop),
    .g_i             (control.g),
    .acc_rd_valid_o,
    .acc_rd_addr_o,
    .acc_rd_ready_i,
    .acc_rd_data_i,
    .vbuf_rd_valid_o,
    .vbuf_rd_addr_o,
    .vbuf_rd_data_i,
    .param_rd_valid_o,
    .param_rd_addr_o,
    .param_rd_data_i
  );

  // Beats.
  /* verilator lint_off UNUSEDSIGNAL */  // addresses were checked: what is beyond a buffer's width is zero
  logic [15:0] red_addr, vbuf_wr_addr, act_wr_addr, param_wr_addr;
  /* verilator lint_on UNUSEDSIGNAL */
  logic        fire, tile_begins, d_taken, row_taken, col_room;
  logic [15:0] row;

  dpu_vpu_sequence #(
    .Cols   (Cols),
    .Lanes  (Lanes),
    .DRoom  (DRoom),
    .RowRoom(RowRoom)
  ) u_sequence (
    .clk_i,
    .rst_ni,
    .stop_i       (stop),
    .word_valid_i (next_valid),
    .word_i       (next),
    .config_i     (current),
    .order_ready_i(order_ready),
    .begins_o     (begins),
    .ends_o       (ends),
    .active_o     (active),
    .a_valid_i    (element_valid[0]),
    .b_valid_i    (element_valid[1]),
    .row_valid_i  (scalar_valid[0]),
    .col_valid_i  (scalar_valid[1]),
    .a_pop_o      (element_pop[0]),
    .b_pop_o      (element_pop[1]),
    .row_pop_o    (scalar_pop[0]),
    .col_pop_o    (scalar_pop[1]),
    .d_taken_i    (d_taken),
    .row_taken_i  (row_taken),
    .col_room_i   (col_room),
    .tile_begins_o(tile_begins),
    .fire_o       (fire),
    .control_o    (control),
    .row_o        (row)
  );

  gate_config_t [1:0]      gate;
  logic [Lanes-1:0]        table_valid, table_slot;
  logic [Lanes-1:0][7:0]   table_index;
  gate_entry_t [Lanes-1:0] table_entry;

  dpu_vpu_tables #(
    .Lanes(Lanes)
  ) u_tables (
    .clk_i,
    .rst_ni,
    .wr_valid_i (table_wr_valid_i),
    .wr_slot_i  (table_wr_slot_i),
    .wr_header_i(table_wr_header_i),
    .wr_index_i (table_wr_index_i),
    .wr_data_i  (table_wr_data_i),
    .loaded_o   (loaded),
    .config_o   (gate),
    .rd_valid_i (table_valid),
    .rd_slot_i  (table_slot),
    .rd_index_i (table_index),
    .rd_entry_o (table_entry)
  );

  logic                   out_valid;
  control_t               out_control;
  logic [Lanes-1:0][31:0] out, tap;
  logic [Lanes-1:0]       odd;

  dpu_vpu_lanes #(
    .Cols (Cols),
    .Lanes(Lanes)
  ) u_lanes (
    .clk_i,
    .rst_ni,
    .fire_i       (fire),
    .control_i    (control),
    .config_i     (current),
    .row_i        (row),
    .a_i          (element_data[0]),
    .b_i          (element_data[1]),
    .rows_i       (rows_data),
    .cols_i       (cols_data),
    .gate_i       (gate),
    .table_valid_o(table_valid),
    .table_slot_o (table_slot),
    .table_index_o(table_index),
    .table_entry_i(table_entry),
    .valid_o      (out_valid),
    .control_o    (out_control),
    .out_o        (out),
    .tap_o        (tap),
    .odd_o        (odd)
  );

  // Behind the lanes. Writes of PARAM, 0: row reductions, 1: column reductions, 2: results.
  logic [2:0]                  wr_valid, wr_last, wr_ready, wr_leaves;
  logic [2:0][15:0]            wr_addr;
  logic [2:0][CountW-1:0]      wr_count;
  logic [2:0][Lanes-1:0][31:0] wr_data;
  logic [1:0]                  inexact;
  logic                        passed, passed_odd;

  dpu_vpu_write #(
    .Cols (Cols),
    .Lanes(Lanes),
    .Room (DRoom)
  ) u_write (
    .clk_i,
    .rst_ni,
    .valid_i         (out_valid),
    .control_i       (out_control),
    .out_i           (out),
    .odd_i           (odd),
    .vbuf_wr_valid_o,
    .vbuf_wr_addr_o  (vbuf_wr_addr),
    .vbuf_wr_data_o,
    .act_wr_valid_o,
    .act_wr_addr_o   (act_wr_addr),
    .act_wr_data_o,
    .param_wr_valid_o(wr_valid[2]),
    .param_wr_addr_o (wr_addr[2]),
    .param_wr_count_o(wr_count[2]),
    .param_wr_data_o (wr_data[2]),
    .param_wr_last_o (wr_last[2]),
    .param_wr_ready_i(wr_ready[2]),
    .passed_o        (passed),
    .passed_odd_o    (passed_odd),
    .overflows_o,
    .nans_o
  );

  assign vbuf_wr_addr_o = vbuf_wr_addr[$clog2(VbufWords)-1:0];
  assign act_wr_addr_o  = act_wr_addr[$clog2(ActWords)-1:0];

  dpu_vpu_reduce #(
    .Cols   (Cols),
    .Lanes  (Lanes),
    .RowRoom(RowRoom)
  ) u_reduce (
    .clk_i,
    .rst_ni,
    .word_valid_i (begins & next.red != ReduceNone),
    .word_i       (next),
    .tile_begins_i(tile_begins),
    .valid_i      (out_valid),
    .control_i    (out_control),
    .out_i        (out),
    .tap_i        (tap),
    .row_taken_o  (row_taken),
    .col_room_o   (col_room),
    .rd_valid_o   (red_rd_valid_o),
    .rd_addr_o    (red_addr),
    .rd_data_i    (scalars_t'(red_rd_data_i)),
    .wr_valid_o   (wr_valid[1:0]),
    .wr_addr_o    (wr_addr[1:0]),
    .wr_count_o   (wr_count[1:0]),
    .wr_data_o    (wr_data[1:0]),
    .wr_last_o    (wr_last[1:0]),
    .wr_inexact_o (inexact),
    .wr_ready_i   (wr_ready[1:0])
  );

  assign red_rd_addr_o = red_addr[$clog2(ParamWords)-1:0];

  always_comb begin
    wr_ready         = '0;
    param_wr_addr    = wr_addr[2];
    param_wr_count_o = wr_count[2];
    param_wr_data_o  = (Lanes * 32)'(wr_data[2]);
    wr_ready[2]      = param_wr_ready_i & wr_valid[1:0] == '0;
    for (int k = 1; k >= 0; k--) begin
      if (wr_valid[k]) begin
        wr_ready         = 3'(param_wr_ready_i) << k;
        param_wr_addr    = wr_addr[k];
        param_wr_count_o = wr_count[k];
        param_wr_data_o  = (Lanes * 32)'(wr_data[k]);
      end
    end
  end

  assign param_wr_valid_o = wr_valid != '0;
  assign param_wr_addr_o  = param_wr_addr[$clog2(ParamWords)-1:0];
  assign wr_leaves        = wr_valid & wr_ready & wr_last;
  assign d_taken          = wr_valid[2] & wr_ready[2];

  dpu_vpu_order u_order (
    .clk_i,
    .rst_ni,
    .word_i     (next),
    .ready_o    (order_ready),
    .begins_i   (begins),
    .event_i    ({wr_leaves[1], wr_leaves[0], wr_leaves[2], passed}),
    .event_odd_i({inexact[1], inexact[0], 1'b0, passed_odd}),
    .empty_o    (order_empty),
    .done_o     (order_done),
    .fault_o    (order_fault)
  );

  assign busy_o  = issue_busy | !fetch_empty | !order_empty;
  assign stall_o = busy_o & !fire;

endmodule
