// The five buffers of a tile, each with all its clients: ACT, WGT, ACC, VBUF (`dpu_scratchpad`) and PARAM.
// Client 0 of a port is never refused; who is which client is the table in rtl/README.md.
// Ports that a buffer does not have are not here.

module dpu_buffers #(
  parameter int unsigned Cols       = 8,
  parameter int unsigned Lanes      = 8,
  parameter int unsigned ActWords   = 8192,
  parameter int unsigned WgtWords   = 4096,
  parameter int unsigned AccWords   = 2048,
  parameter int unsigned VbufWords  = 4096,
  parameter int unsigned ParamWords = 16384,
  parameter int unsigned ActBanks   = 2,
  parameter int unsigned WgtBanks   = 2,
  parameter int unsigned AccBanks   = 4,
  parameter int unsigned VbufBanks  = 2,
  localparam int unsigned ActAddrW   = $clog2(ActWords),
  localparam int unsigned WgtAddrW   = $clog2(WgtWords),
  localparam int unsigned AccAddrW   = $clog2(AccWords),
  localparam int unsigned VbufAddrW  = $clog2(VbufWords),
  localparam int unsigned ParamAddrW = $clog2(ParamWords),
  localparam int unsigned CountW     = $clog2(Lanes + 1)
) (
  input  logic                        clk_i,

  // read 0: MXU, 1: STORE; write 0: VPU, 1: LOAD
  input  logic [1:0]                  act_rd_valid_i,
  output logic                        act_rd_ready_o,  // of client 1
  input  logic [1:0][ActAddrW-1:0]    act_rd_addr_i,
  output logic [1:0][Cols*8-1:0]      act_rd_data_o,
  input  logic [1:0]                  act_wr_valid_i,
  output logic                        act_wr_ready_o,
  input  logic [1:0][ActAddrW-1:0]    act_wr_addr_i,
  input  logic [1:0][Cols*8-1:0]      act_wr_data_i,

  // read: MXU; write: LOAD
  input  logic                        wgt_rd_valid_i,
  input  logic [WgtAddrW-1:0]         wgt_rd_addr_i,
  output logic [Cols*8-1:0]           wgt_rd_data_o,
  input  logic                        wgt_wr_valid_i,
  input  logic [WgtAddrW-1:0]         wgt_wr_addr_i,
  input  logic [Cols*8-1:0]           wgt_wr_data_i,

  // read 0: MXU, 1: VPU; write: MXU
  input  logic [1:0]                  acc_rd_valid_i,
  output logic                        acc_rd_ready_o,
  input  logic [1:0][AccAddrW-1:0]    acc_rd_addr_i,
  output logic [1:0][Cols*32-1:0]     acc_rd_data_o,
  input  logic                        acc_wr_valid_i,
  input  logic [AccAddrW-1:0]         acc_wr_addr_i,
  input  logic [Cols*32-1:0]          acc_wr_data_i,

  // read 0: VPU, 1: STORE; write 0: VPU, 1: LOAD
  input  logic [1:0]                  vbuf_rd_valid_i,
  output logic                        vbuf_rd_ready_o,
  input  logic [1:0][VbufAddrW-1:0]   vbuf_rd_addr_i,
  output logic [1:0][Cols*16-1:0]     vbuf_rd_data_o,
  input  logic [1:0]                  vbuf_wr_valid_i,
  output logic                        vbuf_wr_ready_o,
  input  logic [1:0][VbufAddrW-1:0]   vbuf_wr_addr_i,
  input  logic [1:0][Cols*16-1:0]     vbuf_wr_data_i,

  // as in dpu_param
  input  logic [3:0]                  param_rd_valid_i,
  output logic                        param_rd_ready_o,  // of client 3
  input  logic [3:0][ParamAddrW-1:0]  param_rd_addr_i,
  output logic [3:0][Lanes*32-1:0]    param_rd_data_o,
  input  logic [2:0]                  param_wr_valid_i,
  output logic [2:1]                  param_wr_ready_o,
  input  logic [2:0][ParamAddrW-1:0]  param_wr_addr_i,
  input  logic [2:0][CountW-1:0]      param_wr_count_i,
  input  logic [2:0][Lanes*32-1:0]    param_wr_data_i
);

  // Always one, or of ports that are not there.
  logic                   act_rd_first, act_wr_first, acc_rd_first, vbuf_rd_first, vbuf_wr_first, param_wr_first;
  logic [1:0]             wgt_rd_ready, wgt_wr_ready, acc_wr_ready;
  logic [2:0]             param_rd_first;
  logic [1:0][Cols*8-1:0] wgt_rd_data;
  logic                   unused;
  assign unused = ^{act_rd_first, act_wr_first, acc_rd_first, vbuf_rd_first, vbuf_wr_first, param_wr_first,
                    wgt_rd_ready, wgt_wr_ready, acc_wr_ready, param_rd_first, wgt_rd_data[1]};

  assign wgt_rd_data_o = wgt_rd_data[0];

  dpu_scratchpad #(
    .Words   (ActWords),
    .WordBits(Cols * 8),
    .Banks   (ActBanks)
  ) u_act (
    .clk_i,
    .rd_valid_i(act_rd_valid_i),
    .rd_addr_i (act_rd_addr_i),
    .rd_ready_o({act_rd_ready_o, act_rd_first}),
    .rd_data_o (act_rd_data_o),
    .wr_valid_i(act_wr_valid_i),
    .wr_addr_i (act_wr_addr_i),
    .wr_data_i (act_wr_data_i),
    .wr_ready_o({act_wr_ready_o, act_wr_first})
  );

  dpu_scratchpad #(
    .Words   (WgtWords),
    .WordBits(Cols * 8),
    .Banks   (WgtBanks)
  ) u_wgt (
    .clk_i,
    .rd_valid_i({1'b0, wgt_rd_valid_i}),
    .rd_addr_i ({WgtAddrW'(0), wgt_rd_addr_i}),
    .rd_ready_o(wgt_rd_ready),
    .rd_data_o (wgt_rd_data),
    .wr_valid_i({1'b0, wgt_wr_valid_i}),
    .wr_addr_i ({WgtAddrW'(0), wgt_wr_addr_i}),
    .wr_data_i ({(Cols * 8)'(0), wgt_wr_data_i}),
    .wr_ready_o(wgt_wr_ready)
  );

  dpu_scratchpad #(
    .Words   (AccWords),
    .WordBits(Cols * 32),
    .Banks   (AccBanks)
  ) u_acc (
    .clk_i,
    .rd_valid_i(acc_rd_valid_i),
    .rd_addr_i (acc_rd_addr_i),
    .rd_ready_o({acc_rd_ready_o, acc_rd_first}),
    .rd_data_o (acc_rd_data_o),
    .wr_valid_i({1'b0, acc_wr_valid_i}),
    .wr_addr_i ({AccAddrW'(0), acc_wr_addr_i}),
    .wr_data_i ({(Cols * 32)'(0), acc_wr_data_i}),
    .wr_ready_o(acc_wr_ready)
  );

  dpu_scratchpad #(
    .Words   (VbufWords),
    .WordBits(Cols * 16),
    .Banks   (VbufBanks)
  ) u_vbuf (
    .clk_i,
    .rd_valid_i(vbuf_rd_valid_i),
    .rd_addr_i (vbuf_rd_addr_i),
    .rd_ready_o({vbuf_rd_ready_o, vbuf_rd_first}),
    .rd_data_o (vbuf_rd_data_o),
    .wr_valid_i(vbuf_wr_valid_i),
    .wr_addr_i (vbuf_wr_addr_i),
    .wr_data_i (vbuf_wr_data_i),
    .wr_ready_o({vbuf_wr_ready_o, vbuf_wr_first})
  );

  dpu_param #(
    .Words(ParamWords),
    .Lanes(Lanes)
  ) u_param (
    .clk_i,
    .rd_valid_i(param_rd_valid_i),
    .rd_addr_i (param_rd_addr_i),
    .rd_ready_o({param_rd_ready_o, param_rd_first}),
    .rd_data_o (param_rd_data_o),
    .wr_valid_i(param_wr_valid_i),
    .wr_addr_i (param_wr_addr_i),
    .wr_count_i(param_wr_count_i),
    .wr_data_i (param_wr_data_i),
    .wr_ready_o({param_wr_ready_o, param_wr_first})
  );

endmodule
