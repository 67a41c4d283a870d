// Control registers of a kernel, protocol ap_ctrl_hs: start, done, idle, interrupt, arguments (rtl/xrt/kernel.py).
// `start_o` is one cycle; `done_i` ends the run. Arguments beyond the scalars are written and never read.
// START while a run goes on is kept, as the bit still is: the runtime starts the next run after done.

module dpu_kernel_control (
  input  logic                                   clk_i,
  input  logic                                   rst_ni,

  input  logic                                   awvalid_i,
  output logic                                   awready_o,
  input  logic [dpu_kernel_pkg::ControlBits-1:0] awaddr_i,
  input  logic                                   wvalid_i,
  output logic                                   wready_o,
  input  logic [31:0]                            wdata_i,
  input  logic [3:0]                             wstrb_i,
  output logic                                   bvalid_o,
  input  logic                                   bready_i,
  output logic [1:0]                             bresp_o,
  input  logic                                   arvalid_i,
  output logic                                   arready_o,
  input  logic [dpu_kernel_pkg::ControlBits-1:0] araddr_i,
  output logic                                   rvalid_o,
  input  logic                                   rready_i,
  output logic [31:0]                            rdata_o,
  output logic [1:0]                             rresp_o,

  output logic                                   start_o,
  input  logic                                   done_i,
  output dpu_pkg::axi_addr_t                     commands_o,
  output dpu_pkg::axi_addr_t                     report_o,
  output logic                                   irq_o
);

  import dpu_kernel_pkg::*;

  logic                   wr_valid, rd_valid;
  logic [ControlBits-1:2] wr_addr, rd_addr;
  logic [31:0]            wr_data, wr_mask, rd_data_q;

  dpu_axil #(
    .AddrW(ControlBits)
  ) u_axil (
    .clk_i,
    .rst_ni,
    .awvalid_i,
    .awready_o,
    .awaddr_i,
    .wvalid_i,
    .wready_o,
    .wdata_i,
    .wstrb_i,
    .bvalid_o,
    .bready_i,
    .bresp_o,
    .arvalid_i,
    .arready_o,
    .araddr_i,
    .rvalid_o,
    .rready_i,
    .rdata_o,
    .rresp_o,
    .wr_valid_o(wr_valid),
    .wr_addr_o (wr_addr),
    .wr_data_o (wr_data),
    .wr_mask_o (wr_mask),
    .rd_valid_o(rd_valid),
    .rd_addr_o (rd_addr),
    .rd_data_i (rd_data_q)
  );

  function automatic logic at(logic [ControlBits-1:2] address, int unsigned bytes);
    return address == (ControlBits - 2)'(bytes / 4);
  endfunction

  logic                     start_q, done_q, ready_q, run_q, gie_q;
  logic [1:0]               ier_q, isr_q;  // done, ready
  logic [Scalars-1:0][31:0] scalars_q;
  logic [31:0]              wr_bits;
  logic                     rd_ctrl;

  assign wr_bits    = wr_data & wr_mask;
  assign rd_ctrl    = rd_valid & at(rd_addr, CtrlAddr);
  assign start_o    = start_q & ~run_q;
  assign commands_o = {scalars_q[1], scalars_q[0]};
  assign report_o   = {scalars_q[3], scalars_q[2]};
  assign irq_o      = gie_q & (isr_q != '0);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      start_q <= 1'b0;
      done_q  <= 1'b0;
      ready_q <= 1'b0;
      run_q   <= 1'b0;
    end else begin
      if (start_o) run_q <= 1'b1;
      else if (done_i) run_q <= 1'b0;
      if (done_i) start_q <= 1'b0;
      else if (wr_valid && at(wr_addr, CtrlAddr) && wr_bits[0]) start_q <= 1'b1;
      if (done_i) begin  // a done that comes with a read is seen by the next one
        done_q  <= 1'b1;
        ready_q <= 1'b1;
      end else if (rd_ctrl) begin
        done_q  <= 1'b0;
        ready_q <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      gie_q <= 1'b0;
      ier_q <= '0;
      isr_q <= '0;
    end else begin
      if (wr_valid && at(wr_addr, GieAddr) && wr_mask[0]) gie_q <= wr_data[0];
      if (wr_valid && at(wr_addr, IerAddr) && wr_mask[0]) ier_q <= wr_data[1:0];
      isr_q <= (isr_q ^ (wr_valid && at(wr_addr, IsrAddr) ? wr_bits[1:0] : 2'b0)) | (ier_q & {2{done_i}});
    end
  end

  for (genvar i = 0; i < Scalars; i++) begin : gen_scalar
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) scalars_q[i] <= '0;
      else if (wr_valid && at(wr_addr, ArgAddr + 4 * i)) begin
        scalars_q[i] <= (scalars_q[i] & ~wr_mask) | wr_bits;
      end
    end
  end

  // Read: data follow `rd_valid` by a cycle and stay.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) rd_data_q <= '0;
    else if (rd_valid) begin
      rd_data_q <= '0;
      if (at(rd_addr, CtrlAddr)) rd_data_q <= {28'b0, ready_q, ~run_q & ~start_q, done_q, start_q};
      if (at(rd_addr, GieAddr)) rd_data_q <= {31'b0, gie_q};
      if (at(rd_addr, IerAddr)) rd_data_q <= {30'b0, ier_q};
      if (at(rd_addr, IsrAddr)) rd_data_q <= {30'b0, isr_q};
      for (int unsigned i = 0; i < Scalars; i++) begin
        if (at(rd_addr, ArgAddr + 4 * i)) rd_data_q <= scalars_q[i];
      end
    end
  end

endmodule
