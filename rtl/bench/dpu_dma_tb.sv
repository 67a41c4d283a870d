// LOAD and STORE side by side, their ports brought out: the top of the benches of both.
// Scratchpads, DRAM and the queue are the bench's.
// One reset, one stop and one set of regions serve both.

module dpu_dma_tb #(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8,
  parameter int unsigned ActWords = 8192,
  parameter int unsigned WgtWords = 4096,
  parameter int unsigned VbufWords = 4096,
  parameter int unsigned ParamWords = 16384
) (
  input  logic                            clk_i,
  input  logic                            rst_ni,
  input  logic                            stop_i,
  input  logic [8*128-1:0]                regions_i,
  input  logic [511:0]                    word_i,
  input  logic [31:0]                     index_i,

  input  logic                            load_start_valid_i,
  output logic                            load_start_ready_o,
  output logic                            load_done_o,
  output logic                            load_busy_o,
  output logic                            load_stall_o,
  output logic                            load_quiet_o,
  output logic                            load_fault_valid_o,
  output logic [7:0]                      load_fault_code_o,
  output logic [31:0]                     load_fault_index_o,
  output logic [63:0]                     load_fault_address_o,
  output logic [31:0]                     load_bytes_o,
  output logic                            ar_valid_o,
  output logic [63:0]                     ar_addr_o,
  output logic [7:0]                      ar_len_o,
  input  logic                            ar_ready_i,
  input  logic                            r_valid_i,
  input  logic [511:0]                    r_data_i,
  input  logic [1:0]                      r_resp_i,
  input  logic                            r_last_i,
  output logic                            r_ready_o,
  output logic                            act_wr_valid_o,
  output logic [$clog2(ActWords)-1:0]     act_wr_addr_o,
  output logic [Cols*8-1:0]               act_wr_data_o,
  input  logic                            act_wr_ready_i,
  output logic                            wgt_wr_valid_o,
  output logic [$clog2(WgtWords)-1:0]     wgt_wr_addr_o,
  output logic [Cols*8-1:0]               wgt_wr_data_o,
  input  logic                            wgt_wr_ready_i,
  output logic                            vbuf_wr_valid_o,
  output logic [$clog2(VbufWords)-1:0]    vbuf_wr_addr_o,
  output logic [Cols*16-1:0]              vbuf_wr_data_o,
  input  logic                            vbuf_wr_ready_i,
  output logic                            param_wr_valid_o,
  output logic [$clog2(ParamWords)-1:0]   param_wr_addr_o,
  output logic [$clog2(Lanes+1)-1:0]      param_wr_count_o,
  output logic [Lanes*32-1:0]             param_wr_data_o,
  input  logic                            param_wr_ready_i,
  output logic                            table_wr_valid_o,
  output logic [0:0]                      table_wr_slot_o,
  output logic                            table_wr_header_o,
  output logic [7:0]                      table_wr_index_o,
  output logic [127:0]                    table_wr_data_o,

  input  logic                            store_start_valid_i,
  output logic                            store_start_ready_o,
  output logic                            store_done_o,
  output logic                            store_busy_o,
  output logic                            store_stall_o,
  output logic                            store_quiet_o,
  output logic                            store_fault_valid_o,
  output logic [7:0]                      store_fault_code_o,
  output logic [31:0]                     store_fault_index_o,
  output logic [63:0]                     store_fault_address_o,
  output logic [31:0]                     store_bytes_o,
  output logic                            aw_valid_o,
  output logic [63:0]                     aw_addr_o,
  output logic [7:0]                      aw_len_o,
  input  logic                            aw_ready_i,
  output logic                            w_valid_o,
  output logic [511:0]                    w_data_o,
  output logic [63:0]                     w_strb_o,
  output logic                            w_last_o,
  input  logic                            w_ready_i,
  input  logic                            b_valid_i,
  input  logic [1:0]                      b_resp_i,
  output logic                            b_ready_o,
  output logic                            act_rd_valid_o,
  output logic [$clog2(ActWords)-1:0]     act_rd_addr_o,
  input  logic                            act_rd_ready_i,
  input  logic [Cols*8-1:0]               act_rd_data_i,
  output logic                            vbuf_rd_valid_o,
  output logic [$clog2(VbufWords)-1:0]    vbuf_rd_addr_o,
  input  logic                            vbuf_rd_ready_i,
  input  logic [Cols*16-1:0]              vbuf_rd_data_i,
  output logic                            param_rd_valid_o,
  output logic [$clog2(ParamWords)-1:0]   param_rd_addr_o,
  input  logic                            param_rd_ready_i,
  input  logic [Lanes*32-1:0]             param_rd_data_i
);

  dpu_pkg::fault_t load_fault, store_fault;
  dpu_pkg::region_t [7:0] regions;

  assign load_fault_valid_o    = load_fault.valid;
  assign load_fault_code_o     = load_fault.code;
  assign load_fault_index_o    = load_fault.index;
  assign load_fault_address_o  = load_fault.address;
  assign store_fault_valid_o   = store_fault.valid;
  assign store_fault_code_o    = store_fault.code;
  assign store_fault_index_o   = store_fault.index;
  assign store_fault_address_o = store_fault.address;
  assign regions               = regions_i;

  dpu_load #(
    .Cols(Cols), .Lanes(Lanes), .ActWords(ActWords), .WgtWords(WgtWords), .VbufWords(VbufWords), .ParamWords(ParamWords)
  ) u_load (
    .start_valid_i (load_start_valid_i),
    .start_ready_o (load_start_ready_o),
    .done_o        (load_done_o),
    .busy_o        (load_busy_o),
    .stall_o       (load_stall_o),
    .quiet_o       (load_quiet_o),
    .fault_o       (load_fault),
    .regions_i     (regions),
    .read_bytes_o  (load_bytes_o),
    .*
  );

  dpu_store #(
    .Cols(Cols), .Lanes(Lanes), .ActWords(ActWords), .VbufWords(VbufWords), .ParamWords(ParamWords)
  ) u_store (
    .start_valid_i   (store_start_valid_i),
    .start_ready_o   (store_start_ready_o),
    .done_o          (store_done_o),
    .busy_o          (store_busy_o),
    .stall_o         (store_stall_o),
    .quiet_o         (store_quiet_o),
    .fault_o         (store_fault),
    .regions_i       (regions),
    .written_bytes_o (store_bytes_o),
    .*
  );

endmodule
