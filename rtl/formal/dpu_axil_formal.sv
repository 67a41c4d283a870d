// Proof of dpu_axil: the AXI4-Lite rules of a slave, one register access and one answer for each access of the host.
// Nothing is assumed, not even that the host keeps its valid up.
// Writes and reads are counted where they are accepted, carried out and answered.

module dpu_axil_formal #(
  parameter int unsigned AddrW = 14
) (
  input logic             clk_i,
  input logic             awvalid_i,
  input logic [AddrW-1:0] awaddr_i,
  input logic             wvalid_i,
  input logic [31:0]      wdata_i,
  input logic [3:0]       wstrb_i,
  input logic             bready_i,
  input logic             arvalid_i,
  input logic [AddrW-1:0] araddr_i,
  input logic             rready_i,
  input logic [31:0]      rd_data_i
);

  logic             rst_ni, awready, wready, bvalid, arready, rvalid, wr_valid, rd_valid;
  logic [1:0]       bresp, rresp;
  logic [31:0]      rdata, wr_data, wr_mask;
  logic [AddrW-1:2] wr_addr, rd_addr;

  dpu_formal_reset u_reset (.clk_i, .rst_no(rst_ni));
  dpu_axil #(.AddrW(AddrW)) dut (
    .*, .awready_o(awready), .wready_o(wready), .bvalid_o(bvalid), .bresp_o(bresp), .arready_o(arready),
    .rvalid_o(rvalid), .rdata_o(rdata), .rresp_o(rresp), .wr_valid_o(wr_valid), .wr_addr_o(wr_addr),
    .wr_data_o(wr_data), .wr_mask_o(wr_mask), .rd_valid_o(rd_valid), .rd_addr_o(rd_addr)
  );

  logic [7:0]       aw_q, w_q, write_q, b_q, ar_q, r_q;  // accepted, carried out, answered
  logic [AddrW-1:2] addr_q, raddr_q;
  logic [31:0]      data_q, rdata_q, looked_q;
  logic [3:0]       strb_q;
  logic             b_wait_q, r_wait_q;
  logic [2:0]       age_q;  // cycles since the read was accepted

  always_ff @(posedge clk_i) begin
    if (awvalid_i && awready) addr_q <= awaddr_i[AddrW-1:2];
    if (wvalid_i && wready) {data_q, strb_q} <= {wdata_i, wstrb_i};
    if (arvalid_i && arready) raddr_q <= araddr_i[AddrW-1:2];
    rdata_q <= rdata;
    if (age_q == 3'd2) looked_q <= rd_data_i;
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {aw_q, w_q, write_q, b_q, ar_q, r_q} <= '0;
      {b_wait_q, r_wait_q} <= '0;
      age_q <= '0;
    end else begin
      aw_q     <= aw_q + 8'(awvalid_i & awready);
      w_q      <= w_q + 8'(wvalid_i & wready);
      write_q  <= write_q + 8'(wr_valid);
      b_q      <= b_q + 8'(bvalid & bready_i);
      ar_q     <= ar_q + 8'(arvalid_i & arready);
      r_q      <= r_q + 8'(rvalid & rready_i);
      b_wait_q <= bvalid & ~bready_i;
      r_wait_q <= rvalid & ~rready_i;
      age_q    <= (arvalid_i && arready) ? 3'd1 : (age_q == 3'd0 || (rvalid && rready_i)) ? 3'd0 :
                  (age_q < 3'd3) ? age_q + 3'd1 : age_q;
    end
  end

  always_comb begin
    if (rst_ni) begin
      BStaysUp: assert (!b_wait_q || bvalid);
      RStaysUp: assert (!r_wait_q || (rvalid && rdata == rdata_q));
      Okay: assert (bresp == 2'b00 && rresp == 2'b00);
      WriteNeedsBoth: assert (!wr_valid || (aw_q != write_q && w_q != write_q));
      OneWriteOpen: assert (8'(aw_q - write_q) <= 8'd1 && 8'(w_q - write_q) <= 8'd1);
      WriteOfHost: assert (!wr_valid || (wr_addr == addr_q && wr_data == data_q && wr_mask ==
                           {{8{strb_q[3]}}, {8{strb_q[2]}}, {8{strb_q[1]}}, {8{strb_q[0]}}}));
      OneAnswerEach: assert (8'(write_q - b_q) == 8'(bvalid));
      WriteServed: assert (!(aw_q != write_q && w_q != write_q && (!bvalid || bready_i)) || wr_valid);
      Takes: assert (awready == (aw_q == write_q) && wready == (w_q == write_q));
      OneReadOpen: assert (8'(ar_q - r_q) == 8'(age_q != '0));
      ReadAnswer: assert (rvalid == (age_q == 3'd3) && (!rvalid || rdata == looked_q));
      ReadOfHost: assert (!(arvalid_i && arready) || (rd_valid && rd_addr == araddr_i[AddrW-1:2]));
      ReadOnce: assert (!rd_valid || (arvalid_i && arready));
      ReadTakes: assert (arready == (age_q == '0));
      // for induction
      Flags: assert (dut.aw_q == (aw_q != write_q) && dut.w_q == (w_q != write_q));
      Address: assert ((aw_q == write_q || dut.aw_addr_q == addr_q) &&
                       (w_q == write_q || (dut.w_data_q == data_q && dut.w_strb_q == strb_q)));
      State: assert (2'(dut.read_q) == age_q[1:0] && age_q <= 3'd3);
      CoverAddressFirst: cover (wr_valid && b_q == 8'd1 && bvalid);
      CoverHeldBack: cover (b_wait_q && aw_q != write_q && w_q != write_q);
      CoverReadWaits: cover (r_wait_q && rready_i && r_q == 8'd1);
      CoverBothWays: cover (wr_valid && rvalid && rready_i);
    end
  end

endmodule
