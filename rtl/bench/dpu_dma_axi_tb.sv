// LOAD and STORE on one AXI4 port, with the tile's scratchpads between them: the top of the cocotb bench.
// `hold_i` makes the client that goes first read (ACT, VBUF, PARAM), so that STORE is refused where they meet.
// Gate tables go nowhere; WGT is only written.

module dpu_dma_axi_tb #(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8,
  parameter int unsigned ActWords = 8192,
  parameter int unsigned WgtWords = 4096,
  parameter int unsigned VbufWords = 4096,
  parameter int unsigned ParamWords = 16384
) (
  input  logic              clk_i,
  input  logic              rst_ni,
  input  logic              stop_i,
  input  logic [8*128-1:0]  regions_i,
  input  logic [511:0]      word_i,
  input  logic [31:0]       index_i,
  input  logic [1:0]        start_valid_i,  // 0: LOAD, 1: STORE
  output logic [1:0]        start_ready_o,
  output logic [1:0]        done_o,
  output logic [1:0]        quiet_o,
  output logic [1:0]        fault_valid_o,
  output logic [1:0][7:0]   fault_code_o,
  output logic [1:0][31:0]  fault_index_o,
  output logic [1:0][63:0]  fault_address_o,
  input  logic [2:0]        hold_i,

  output logic [0:0]        m_axi_arid,
  output logic [63:0]       m_axi_araddr,
  output logic [7:0]        m_axi_arlen,
  output logic [2:0]        m_axi_arsize,
  output logic [1:0]        m_axi_arburst,
  output logic              m_axi_arvalid,
  input  logic              m_axi_arready,
  // Waiver: one ID.
  /* verilator lint_off UNUSEDSIGNAL */
  input  logic [0:0]        m_axi_rid,
  input  logic [0:0]        m_axi_bid,
  /* verilator lint_on UNUSEDSIGNAL */
  input  logic [511:0]      m_axi_rdata,
  input  logic [1:0]        m_axi_rresp,
  input  logic              m_axi_rlast,
  input  logic              m_axi_rvalid,
  output logic              m_axi_rready,
  output logic [0:0]        m_axi_awid,
  output logic [63:0]       m_axi_awaddr,
  output logic [7:0]        m_axi_awlen,
  output logic [2:0]        m_axi_awsize,
  output logic [1:0]        m_axi_awburst,
  output logic              m_axi_awvalid,
  input  logic              m_axi_awready,
  output logic [511:0]      m_axi_wdata,
  output logic [63:0]       m_axi_wstrb,
  output logic              m_axi_wlast,
  output logic              m_axi_wvalid,
  input  logic              m_axi_wready,
  input  logic [1:0]        m_axi_bresp,
  input  logic              m_axi_bvalid,
  output logic              m_axi_bready
);

  localparam int unsigned ActW = $clog2(ActWords);
  localparam int unsigned VbufW = $clog2(VbufWords);
  localparam int unsigned ParamW = $clog2(ParamWords);

  assign m_axi_arid    = '0;
  assign m_axi_arsize  = 3'd6;
  assign m_axi_arburst = 2'b01;
  assign m_axi_awid    = '0;
  assign m_axi_awsize  = 3'd6;
  assign m_axi_awburst = 2'b01;

  logic                     act_rd_valid, act_rd_ready, act_wr_valid, act_wr_ready;
  logic [ActW-1:0]          act_rd_addr, act_wr_addr;
  logic [Cols*8-1:0]        act_rd_data, act_wr_data;
  logic                     vbuf_rd_valid, vbuf_rd_ready, vbuf_wr_valid, vbuf_wr_ready;
  logic [VbufW-1:0]         vbuf_rd_addr, vbuf_wr_addr;
  logic [Cols*16-1:0]       vbuf_rd_data, vbuf_wr_data;
  logic                     param_rd_valid, param_rd_ready, param_wr_valid, param_wr_ready;
  logic [ParamW-1:0]        param_rd_addr, param_wr_addr;
  logic [$clog2(Lanes+1)-1:0] param_wr_count;
  logic [Lanes*32-1:0]      param_rd_data, param_wr_data;
  dpu_pkg::fault_t [1:0]    fault;

  for (genvar e = 0; e < 2; e++) begin : gen_fault
    assign fault_valid_o[e]   = fault[e].valid;
    assign fault_code_o[e]    = fault[e].code;
    assign fault_index_o[e]   = fault[e].index;
    assign fault_address_o[e] = fault[e].address;
  end

  // Waiver: what this bench does not look at.
  /* verilator lint_off PINCONNECTEMPTY */
  dpu_load #(
    .Cols(Cols), .Lanes(Lanes), .ActWords(ActWords), .WgtWords(WgtWords), .VbufWords(VbufWords), .ParamWords(ParamWords)
  ) u_load (
    .clk_i, .rst_ni, .stop_i, .word_i, .index_i, .regions_i,
    .quiet_o(quiet_o[0]), .start_valid_i(start_valid_i[0]), .start_ready_o(start_ready_o[0]), .done_o(done_o[0]),
    .busy_o(), .stall_o(), .fault_o(fault[0]),
    .ar_valid_o(m_axi_arvalid), .ar_addr_o(m_axi_araddr), .ar_len_o(m_axi_arlen), .ar_ready_i(m_axi_arready),
    .r_valid_i(m_axi_rvalid), .r_data_i(m_axi_rdata), .r_resp_i(m_axi_rresp), .r_last_i(m_axi_rlast),
    .r_ready_o(m_axi_rready),
    .act_wr_valid_o(act_wr_valid), .act_wr_addr_o(act_wr_addr), .act_wr_data_o(act_wr_data),
    .act_wr_ready_i(act_wr_ready),
    .wgt_wr_valid_o(), .wgt_wr_addr_o(), .wgt_wr_data_o(), .wgt_wr_ready_i(1'b1),
    .vbuf_wr_valid_o(vbuf_wr_valid), .vbuf_wr_addr_o(vbuf_wr_addr), .vbuf_wr_data_o(vbuf_wr_data),
    .vbuf_wr_ready_i(vbuf_wr_ready),
    .param_wr_valid_o(param_wr_valid), .param_wr_addr_o(param_wr_addr), .param_wr_count_o(param_wr_count),
    .param_wr_data_o(param_wr_data), .param_wr_ready_i(param_wr_ready),
    .table_wr_valid_o(), .table_wr_slot_o(), .table_wr_header_o(), .table_wr_index_o(), .table_wr_data_o(),
    .read_bytes_o()
  );

  dpu_store #(
    .Cols(Cols), .Lanes(Lanes), .ActWords(ActWords), .VbufWords(VbufWords), .ParamWords(ParamWords)
  ) u_store (
    .clk_i, .rst_ni, .stop_i, .word_i, .index_i, .regions_i,
    .quiet_o(quiet_o[1]), .start_valid_i(start_valid_i[1]), .start_ready_o(start_ready_o[1]), .done_o(done_o[1]),
    .busy_o(), .stall_o(), .fault_o(fault[1]),
    .aw_valid_o(m_axi_awvalid), .aw_addr_o(m_axi_awaddr), .aw_len_o(m_axi_awlen), .aw_ready_i(m_axi_awready),
    .w_valid_o(m_axi_wvalid), .w_data_o(m_axi_wdata), .w_strb_o(m_axi_wstrb), .w_last_o(m_axi_wlast),
    .w_ready_i(m_axi_wready), .b_valid_i(m_axi_bvalid), .b_resp_i(m_axi_bresp), .b_ready_o(m_axi_bready),
    .act_rd_valid_o(act_rd_valid), .act_rd_addr_o(act_rd_addr), .act_rd_ready_i(act_rd_ready),
    .act_rd_data_i(act_rd_data),
    .vbuf_rd_valid_o(vbuf_rd_valid), .vbuf_rd_addr_o(vbuf_rd_addr), .vbuf_rd_ready_i(vbuf_rd_ready),
    .vbuf_rd_data_i(vbuf_rd_data),
    .param_rd_valid_o(param_rd_valid), .param_rd_addr_o(param_rd_addr), .param_rd_ready_i(param_rd_ready),
    .param_rd_data_i(param_rd_data),
    .written_bytes_o()
  );

  // Waiver: the client that goes first only takes a port away.
  /* verilator lint_off UNUSEDSIGNAL */
  logic [Cols*8-1:0]   act_other;
  logic [Cols*16-1:0]  vbuf_other;
  logic [2:0][Lanes*32-1:0] param_other;
  logic                act_first, vbuf_first, act_first_wr, vbuf_first_wr;
  logic [2:0]          param_first;
  logic [1:0]          param_first_wr;
  /* verilator lint_on UNUSEDSIGNAL */

  dpu_scratchpad #(.Words(ActWords), .WordBits(Cols * 8), .Banks(2)) u_act (
    .clk_i,
    .rd_valid_i({act_rd_valid, hold_i[0]}), .rd_addr_i({act_rd_addr, ActW'(0)}),
    .rd_ready_o({act_rd_ready, act_first}), .rd_data_o({act_rd_data, act_other}),
    .wr_valid_i({act_wr_valid, 1'b0}), .wr_addr_i({act_wr_addr, ActW'(0)}),
    .wr_data_i({act_wr_data, {(Cols * 8){1'b0}}}), .wr_ready_o({act_wr_ready, act_first_wr})
  );
  dpu_scratchpad #(.Words(VbufWords), .WordBits(Cols * 16), .Banks(2)) u_vbuf (
    .clk_i,
    .rd_valid_i({vbuf_rd_valid, hold_i[1]}), .rd_addr_i({vbuf_rd_addr, VbufW'(0)}),
    .rd_ready_o({vbuf_rd_ready, vbuf_first}), .rd_data_o({vbuf_rd_data, vbuf_other}),
    .wr_valid_i({vbuf_wr_valid, 1'b0}), .wr_addr_i({vbuf_wr_addr, VbufW'(0)}),
    .wr_data_i({vbuf_wr_data, {(Cols * 16){1'b0}}}), .wr_ready_o({vbuf_wr_ready, vbuf_first_wr})
  );
  dpu_param #(.Words(ParamWords), .Lanes(Lanes)) u_param (
    .clk_i,
    .rd_valid_i({param_rd_valid, hold_i[2], 2'b00}), .rd_addr_i({param_rd_addr, {3{ParamW'(0)}}}),
    .rd_ready_o({param_rd_ready, param_first}), .rd_data_o({param_rd_data, param_other}),
    .wr_valid_i({param_wr_valid, 2'b00}), .wr_addr_i({param_wr_addr, {2{ParamW'(0)}}}),
    .wr_count_i({param_wr_count, {2{$clog2(Lanes + 1)'(0)}}}),
    .wr_data_i({param_wr_data, {(2 * Lanes * 32){1'b0}}}), .wr_ready_o({param_wr_ready, param_first_wr})
  );
  /* verilator lint_on PINCONNECTEMPTY */

endmodule
