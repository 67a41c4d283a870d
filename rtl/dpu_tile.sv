// A tile: the sequencer, the four engines, their scratchpads, and the tile's AXI port.
// Only wires between them, and the multiplexing of the tile's AXI port.
// `rst_ni` is the soft reset; it leaves what the scratchpads hold.

module dpu_tile #(
  parameter int unsigned Tiles         = 1,
  parameter int unsigned Cols          = 8,
  parameter int unsigned Lanes         = 8,
  parameter bit          Packed        = 1'b0,  // two columns of the array on one multiplier
  parameter int unsigned ActWords      = 8192,
  parameter int unsigned WgtWords      = 4096,
  parameter int unsigned AccWords      = 2048,
  parameter int unsigned VbufWords     = 4096,
  parameter int unsigned ParamWords    = 16384,
  parameter int unsigned ActBanks      = 2,
  parameter int unsigned WgtBanks      = 2,
  parameter int unsigned AccBanks      = 4,
  parameter int unsigned VbufBanks     = 2,
  parameter int unsigned LoadQueue     = 16,
  parameter int unsigned MxuQueue      = 8,
  parameter int unsigned VpuQueue      = 8,
  parameter int unsigned StoreQueue    = 8,
  parameter int unsigned RemoteLatency = 40
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,

  // control and registers
  input  logic                   start_i,
  input  logic                   stop_i,
  input  dpu_pkg::axi_addr_t     program_i,
  input  logic [31:0]            words_i,
  input  dpu_pkg::region_t [7:0] regions_i,
  output logic                   busy_o,
  output logic                   quiet_o,
  output logic                   progress_o,
  output logic                   irq_o,
  output dpu_pkg::report_t       fault_o,
  output dpu_pkg::report_t       stuck_o,     // the oldest word that has not ended
  input  logic                   cnt_read_i,
  input  logic [7:2]             cnt_offset_i,
  output logic [63:0]            cnt_value_o,
  output logic                   cnt_wide_o,
  output logic                   cnt_high_o,

  // tokens from and to the other tiles
  input  logic [Tiles-1:0]       remote_token_i,
  output logic [Tiles-1:0]       remote_full_o,
  output logic [Tiles-1:0]       remote_token_o,
  input  logic [Tiles-1:0]       remote_full_i,

  // AXI4
  output logic                   ar_valid_o,
  input  logic                   ar_ready_i,
  output logic [0:0]             ar_id_o,
  output dpu_pkg::axi_addr_t     ar_addr_o,
  output logic [7:0]             ar_len_o,
  input  logic                   r_valid_i,
  output logic                   r_ready_o,
  input  logic [0:0]             r_id_i,
  input  dpu_pkg::beat_t         r_data_i,
  input  logic [1:0]             r_resp_i,
  input  logic                   r_last_i,
  output logic                   aw_valid_o,
  input  logic                   aw_ready_i,
  output dpu_pkg::axi_addr_t     aw_addr_o,
  output logic [7:0]             aw_len_o,
  output logic                   w_valid_o,
  input  logic                   w_ready_i,
  output dpu_pkg::beat_t         w_data_o,
  output logic [63:0]            w_strb_o,
  output logic                   w_last_o,
  input  logic                   b_valid_i,
  output logic                   b_ready_o,
  input  logic [1:0]             b_resp_i,

  output dpu_pkg::event_t [3:0]  events_o
);

  import dpu_isa_pkg::*;
  import dpu_pkg::*;

  localparam int unsigned ActAddrW   = $clog2(ActWords);
  localparam int unsigned WgtAddrW   = $clog2(WgtWords);
  localparam int unsigned AccAddrW   = $clog2(AccWords);
  localparam int unsigned VbufAddrW  = $clog2(VbufWords);
  localparam int unsigned ParamAddrW = $clog2(ParamWords);
  localparam int unsigned CountW     = $clog2(Lanes + 1);
  localparam int unsigned Load       = 32'(EngineLoad);
  localparam int unsigned Mxu        = 32'(EngineMxu);
  localparam int unsigned Vpu        = 32'(EngineVpu);
  localparam int unsigned Store      = 32'(EngineStore);

  // Sequencer.

  logic [3:0]        start_valid, start_ready, done, busy, stall, held, tokenless, idle;
  word_t [3:0]       start_word;
  logic [3:0][31:0]  start_index, word_at;
  logic [31:0]       fetched;
  logic              ended, stop, seq_quiet, seq_progress;
  report_t           seq_fault;
  logic              fetch_ar_valid, fetch_ar_ready, fetch_r_valid, fetch_r_ready;
  axi_addr_t         fetch_ar_addr;
  logic [7:0]        fetch_ar_len;

  dpu_sequencer #(
    .Tiles        (Tiles),
    .LoadQueue    (LoadQueue),
    .MxuQueue     (MxuQueue),
    .VpuQueue     (VpuQueue),
    .StoreQueue   (StoreQueue),
    .RemoteLatency(RemoteLatency)
  ) u_sequencer (
    .clk_i,
    .rst_ni,
    .stop_i       (stop),
    .start_i,
    .program_i,
    .words_i,
    .busy_o,
    .ended_o      (ended),
    .irq_o,
    .quiet_o      (seq_quiet),
    .progress_o   (seq_progress),
    .ar_valid_o   (fetch_ar_valid),
    .ar_ready_i   (fetch_ar_ready),
    .ar_addr_o    (fetch_ar_addr),
    .ar_len_o     (fetch_ar_len),
    .r_valid_i    (fetch_r_valid),
    .r_ready_o    (fetch_r_ready),
    .r_data_i,
    .r_resp_i,
    .start_valid_o(start_valid),
    .start_ready_i(start_ready),
    .word_o       (start_word),
    .index_o      (start_index),
    .done_i       (done),
    .remote_token_i,
    .remote_full_o,
    .remote_token_o,
    .remote_full_i,
    .held_o       (held),
    .tokenless_o  (tokenless),
    .idle_o       (idle),
    .at_o         (word_at),
    .fetched_o    (fetched),
    .events_o,
    .fault_o      (seq_fault)
  );

  // Engines.

  logic [3:0]                       quiet;
  fault_t [3:0]                     fault;
  logic                             load_ar_valid, load_ar_ready, load_r_valid, load_r_ready;
  axi_addr_t                        load_ar_addr;
  logic [7:0]                       load_ar_len;
  logic [31:0]                      read_bytes, written_bytes, overflows, nans;

  // Ports of the buffers; where there are several clients, the index is that of dpu_buffers.
  logic [1:0]                       act_rd_valid, act_wr_valid;
  logic [1:0][ActAddrW-1:0]         act_rd_addr, act_wr_addr;
  logic [1:0][Cols*8-1:0]           act_rd_data, act_wr_data;
  logic                             act_rd_ready, act_wr_ready;
  logic                             wgt_rd_valid, wgt_wr_valid;
  logic [WgtAddrW-1:0]              wgt_rd_addr, wgt_wr_addr;
  logic [Cols*8-1:0]                wgt_rd_data, wgt_wr_data;
  logic [1:0]                       acc_rd_valid;
  logic [1:0][AccAddrW-1:0]         acc_rd_addr;
  logic [1:0][Cols*32-1:0]          acc_rd_data;
  logic                             acc_rd_ready, acc_wr_valid;
  logic [AccAddrW-1:0]              acc_wr_addr;
  logic [Cols*32-1:0]               acc_wr_data;
  logic [1:0]                       vbuf_rd_valid, vbuf_wr_valid;
  logic [1:0][VbufAddrW-1:0]        vbuf_rd_addr, vbuf_wr_addr;
  logic [1:0][Cols*16-1:0]          vbuf_rd_data, vbuf_wr_data;
  logic                             vbuf_rd_ready, vbuf_wr_ready;
  logic [3:0]                       param_rd_valid;
  logic [3:0][ParamAddrW-1:0]       param_rd_addr;
  logic [3:0][Lanes*32-1:0]         param_rd_data;
  logic                             param_rd_ready;
  logic [2:0]                       param_wr_valid;
  logic [2:0][ParamAddrW-1:0]       param_wr_addr;
  logic [2:0][CountW-1:0]           param_wr_count;
  logic [2:0][Lanes*32-1:0]         param_wr_data;
  logic [2:1]                       param_wr_ready;
  logic [31:0]                      mxu_param;
  logic                             table_wr_valid, table_wr_header;
  logic [0:0]                       table_wr_slot;
  logic [7:0]                       table_wr_index;
  logic [127:0]                     table_wr_data;

  dpu_load #(
    .Cols      (Cols),
    .Lanes     (Lanes),
    .ActWords  (ActWords),
    .WgtWords  (WgtWords),
    .VbufWords (VbufWords),
    .ParamWords(ParamWords)
  ) u_load (
    .clk_i,
    .rst_ni,
    .stop_i           (stop),
    .start_valid_i    (start_valid[Load]),
    .start_ready_o    (start_ready[Load]),
    .word_i           (start_word[Load]),
    .index_i          (start_index[Load]),
    .done_o           (done[Load]),
    .busy_o           (busy[Load]),
    .stall_o          (stall[Load]),
    .fault_o          (fault[Load]),
    .regions_i,
    .quiet_o          (quiet[Load]),
    .ar_valid_o       (load_ar_valid),
    .ar_ready_i       (load_ar_ready),
    .ar_addr_o        (load_ar_addr),
    .ar_len_o         (load_ar_len),
    .r_valid_i        (load_r_valid),
    .r_ready_o        (load_r_ready),
    .r_data_i,
    .r_resp_i,
    .r_last_i,
    .act_wr_valid_o   (act_wr_valid[1]),
    .act_wr_ready_i   (act_wr_ready),
    .act_wr_addr_o    (act_wr_addr[1]),
    .act_wr_data_o    (act_wr_data[1]),
    .wgt_wr_valid_o   (wgt_wr_valid),
    .wgt_wr_ready_i   (1'b1),
    .wgt_wr_addr_o    (wgt_wr_addr),
    .wgt_wr_data_o    (wgt_wr_data),
    .vbuf_wr_valid_o  (vbuf_wr_valid[1]),
    .vbuf_wr_ready_i  (vbuf_wr_ready),
    .vbuf_wr_addr_o   (vbuf_wr_addr[1]),
    .vbuf_wr_data_o   (vbuf_wr_data[1]),
    .param_wr_valid_o (param_wr_valid[2]),
    .param_wr_ready_i (param_wr_ready[2]),
    .param_wr_addr_o  (param_wr_addr[2]),
    .param_wr_count_o (param_wr_count[2]),
    .param_wr_data_o  (param_wr_data[2]),
    .table_wr_valid_o (table_wr_valid),
    .table_wr_slot_o  (table_wr_slot),
    .table_wr_header_o(table_wr_header),
    .table_wr_index_o (table_wr_index),
    .table_wr_data_o  (table_wr_data),
    .read_bytes_o     (read_bytes)
  );

  dpu_mxu #(
    .Cols      (Cols),
    .Lanes     (Lanes),
    .Packed    (Packed),
    .ActWords  (ActWords),
    .WgtWords  (WgtWords),
    .AccWords  (AccWords),
    .ParamWords(ParamWords)
  ) u_mxu (
    .clk_i,
    .rst_ni,
    .stop_i          (stop),
    .start_valid_i   (start_valid[Mxu]),
    .start_ready_o   (start_ready[Mxu]),
    .word_i          (start_word[Mxu]),
    .index_i         (start_index[Mxu]),
    .done_o          (done[Mxu]),
    .busy_o          (busy[Mxu]),
    .stall_o         (stall[Mxu]),
    .fault_o         (fault[Mxu]),
    .act_rd_valid_o  (act_rd_valid[0]),
    .act_rd_addr_o   (act_rd_addr[0]),
    .act_rd_data_i   (act_rd_data[0]),
    .wgt_rd_valid_o  (wgt_rd_valid),
    .wgt_rd_addr_o   (wgt_rd_addr),
    .wgt_rd_data_i   (wgt_rd_data),
    .acc_rd_valid_o  (acc_rd_valid[0]),
    .acc_rd_addr_o   (acc_rd_addr[0]),
    .acc_rd_data_i   (acc_rd_data[0]),
    .acc_wr_valid_o  (acc_wr_valid),
    .acc_wr_addr_o   (acc_wr_addr),
    .acc_wr_data_o   (acc_wr_data),
    .param_rd_valid_o(param_rd_valid[2]),
    .param_rd_addr_o (param_rd_addr[2]),
    .param_rd_data_i (param_rd_data[2]),
    .param_wr_valid_o(param_wr_valid[0]),
    .param_wr_addr_o (param_wr_addr[0]),
    .param_wr_data_o (mxu_param)
  );

  dpu_vpu #(
    .Cols      (Cols),
    .Lanes     (Lanes),
    .ActWords  (ActWords),
    .AccWords  (AccWords),
    .VbufWords (VbufWords),
    .ParamWords(ParamWords)
  ) u_vpu (
    .clk_i,
    .rst_ni,
    .stop_i           (stop),
    .start_valid_i    (start_valid[Vpu]),
    .start_ready_o    (start_ready[Vpu]),
    .word_i           (start_word[Vpu]),
    .index_i          (start_index[Vpu]),
    .done_o           (done[Vpu]),
    .busy_o           (busy[Vpu]),
    .stall_o          (stall[Vpu]),
    .fault_o          (fault[Vpu]),
    .acc_rd_valid_o   (acc_rd_valid[1]),
    .acc_rd_ready_i   (acc_rd_ready),
    .acc_rd_addr_o    (acc_rd_addr[1]),
    .acc_rd_data_i    (acc_rd_data[1]),
    .vbuf_rd_valid_o  (vbuf_rd_valid[0]),
    .vbuf_rd_addr_o   (vbuf_rd_addr[0]),
    .vbuf_rd_data_i   (vbuf_rd_data[0]),
    .vbuf_wr_valid_o  (vbuf_wr_valid[0]),
    .vbuf_wr_addr_o   (vbuf_wr_addr[0]),
    .vbuf_wr_data_o   (vbuf_wr_data[0]),
    .act_wr_valid_o   (act_wr_valid[0]),
    .act_wr_addr_o    (act_wr_addr[0]),
    .act_wr_data_o    (act_wr_data[0]),
    .param_rd_valid_o (param_rd_valid[0]),
    .param_rd_addr_o  (param_rd_addr[0]),
    .param_rd_data_i  (param_rd_data[0]),
    .red_rd_valid_o   (param_rd_valid[1]),
    .red_rd_addr_o    (param_rd_addr[1]),
    .red_rd_data_i    (param_rd_data[1]),
    .param_wr_valid_o (param_wr_valid[1]),
    .param_wr_ready_i (param_wr_ready[1]),
    .param_wr_addr_o  (param_wr_addr[1]),
    .param_wr_count_o (param_wr_count[1]),
    .param_wr_data_o  (param_wr_data[1]),
    .table_wr_valid_i (table_wr_valid),
    .table_wr_slot_i  (table_wr_slot),
    .table_wr_header_i(table_wr_header),
    .table_wr_index_i (table_wr_index),
    .table_wr_data_i  (table_wr_data),
    .overflows_o      (overflows),
    .nans_o           (nans)
  );

  dpu_store #(
    .Cols      (Cols),
    .Lanes     (Lanes),
    .ActWords  (ActWords),
    .VbufWords (VbufWords),
    .ParamWords(ParamWords)
  ) u_store (
    .clk_i,
    .rst_ni,
    .stop_i          (stop),
    .start_valid_i   (start_valid[Store]),
    .start_ready_o   (start_ready[Store]),
    .word_i          (start_word[Store]),
    .index_i         (start_index[Store]),
    .done_o          (done[Store]),
    .busy_o          (busy[Store]),
    .stall_o         (stall[Store]),
    .fault_o         (fault[Store]),
    .regions_i,
    .quiet_o         (quiet[Store]),
    .aw_valid_o,
    .aw_ready_i,
    .aw_addr_o,
    .aw_len_o,
    .w_valid_o,
    .w_ready_i,
    .w_data_o,
    .w_strb_o,
    .w_last_o,
    .b_valid_i,
    .b_ready_o,
    .b_resp_i,
    .act_rd_valid_o  (act_rd_valid[1]),
    .act_rd_ready_i  (act_rd_ready),
    .act_rd_addr_o   (act_rd_addr[1]),
    .act_rd_data_i   (act_rd_data[1]),
    .vbuf_rd_valid_o (vbuf_rd_valid[1]),
    .vbuf_rd_ready_i (vbuf_rd_ready),
    .vbuf_rd_addr_o  (vbuf_rd_addr[1]),
    .vbuf_rd_data_i  (vbuf_rd_data[1]),
    .param_rd_valid_o(param_rd_valid[3]),
    .param_rd_ready_i(param_rd_ready),
    .param_rd_addr_o (param_rd_addr[3]),
    .param_rd_data_i (param_rd_data[3]),
    .written_bytes_o (written_bytes)
  );

  dpu_buffers #(
    .Cols      (Cols),
    .Lanes     (Lanes),
    .ActWords  (ActWords),
    .WgtWords  (WgtWords),
    .AccWords  (AccWords),
    .VbufWords (VbufWords),
    .ParamWords(ParamWords),
    .ActBanks  (ActBanks),
    .WgtBanks  (WgtBanks),
    .AccBanks  (AccBanks),
    .VbufBanks (VbufBanks)
  ) u_buffers (
    .clk_i,
    .act_rd_valid_i  (act_rd_valid),
    .act_rd_ready_o  (act_rd_ready),
    .act_rd_addr_i   (act_rd_addr),
    .act_rd_data_o   (act_rd_data),
    .act_wr_valid_i  (act_wr_valid),
    .act_wr_ready_o  (act_wr_ready),
    .act_wr_addr_i   (act_wr_addr),
    .act_wr_data_i   (act_wr_data),
    .wgt_rd_valid_i  (wgt_rd_valid),
    .wgt_rd_addr_i   (wgt_rd_addr),
    .wgt_rd_data_o   (wgt_rd_data),
    .wgt_wr_valid_i  (wgt_wr_valid),
    .wgt_wr_addr_i   (wgt_wr_addr),
    .wgt_wr_data_i   (wgt_wr_data),
    .acc_rd_valid_i  (acc_rd_valid),
    .acc_rd_ready_o  (acc_rd_ready),
    .acc_rd_addr_i   (acc_rd_addr),
    .acc_rd_data_o   (acc_rd_data),
    .acc_wr_valid_i  (acc_wr_valid),
    .acc_wr_addr_i   (acc_wr_addr),
    .acc_wr_data_i   (acc_wr_data),
    .vbuf_rd_valid_i (vbuf_rd_valid),
    .vbuf_rd_ready_o (vbuf_rd_ready),
    .vbuf_rd_addr_i  (vbuf_rd_addr),
    .vbuf_rd_data_o  (vbuf_rd_data),
    .vbuf_wr_valid_i (vbuf_wr_valid),
    .vbuf_wr_ready_o (vbuf_wr_ready),
    .vbuf_wr_addr_i  (vbuf_wr_addr),
    .vbuf_wr_data_i  (vbuf_wr_data),
    .param_rd_valid_i(param_rd_valid),
    .param_rd_ready_o(param_rd_ready),
    .param_rd_addr_i (param_rd_addr),
    .param_rd_data_o (param_rd_data),
    .param_wr_valid_i(param_wr_valid),
    .param_wr_ready_o(param_wr_ready),
    .param_wr_addr_i (param_wr_addr),
    .param_wr_count_i(param_wr_count),
    .param_wr_data_i (param_wr_data)
  );

  // MXU writes one scalar at a time.
  assign param_wr_count[0] = CountW'(1);
  assign param_wr_data[0]  = (Lanes * 32)'(mxu_param);

  // AXI: reads of LOAD and fetch share a port, STORE writes.

  dpu_axi_read u_axi_read (
    .clk_i,
    .rst_ni,
    .load_ar_valid_i (load_ar_valid),
    .load_ar_ready_o (load_ar_ready),
    .load_ar_addr_i  (load_ar_addr),
    .load_ar_len_i   (load_ar_len),
    .load_r_valid_o  (load_r_valid),
    .load_r_ready_i  (load_r_ready),
    .fetch_ar_valid_i(fetch_ar_valid),
    .fetch_ar_ready_o(fetch_ar_ready),
    .fetch_ar_addr_i (fetch_ar_addr),
    .fetch_ar_len_i  (fetch_ar_len),
    .fetch_r_valid_o (fetch_r_valid),
    .fetch_r_ready_i (fetch_r_ready),
    .ar_valid_o,
    .ar_ready_i,
    .ar_id_o,
    .ar_addr_o,
    .ar_len_o,
    .r_valid_i,
    .r_ready_o,
    .r_id_i
  );

  assign {quiet[Mxu], quiet[Vpu]} = '1;
  assign quiet_o                  = seq_quiet & (quiet == '1);

  dpu_monitor u_monitor (
    .clk_i,
    .rst_ni,
    .clear_i        (start_i),
    .starts_i       (start_valid & start_ready),
    .done_i         (done),
    .busy_i         (busy),
    .stall_i        (stall),
    .fault_i        (fault),
    .overflows_i    (overflows),
    .nans_i         (nans),
    .read_bytes_i   (read_bytes),
    .written_bytes_i(written_bytes),
    .axi_moved_i    ({ar_valid_o & ar_ready_i, r_valid_i & r_ready_o, aw_valid_o & aw_ready_i, w_valid_o & w_ready_i,
                      b_valid_i & b_ready_o}),
    .running_i      (busy_o),
    .ended_i        (ended),
    .progress_i     (seq_progress),
    .held_i         (held),
    .tokenless_i    (tokenless),
    .idle_i         (idle),
    .at_i           (word_at),
    .fetched_i      (fetched),
    .fault_seq_i    (seq_fault),
    .stop_i,
    .stop_o         (stop),
    .progress_o,
    .fault_o,
    .stuck_o,
    .cnt_read_i,
    .cnt_offset_i,
    .cnt_value_o,
    .cnt_wide_o,
    .cnt_high_o
  );

endmodule
