// The HBM's AXI clock of 450 MHz, and its reset. On the card an MMCM makes it of the shell's 250 MHz.
// In simulation there is none: the port `clk_hbm_ref` carries the HBM's AXI clock itself, at any phase to the main clock.
// The reset is asserted at once and released in step with the clock, when that is locked.

module dpu_f2_clocks (
  input  logic clk_main_i,
  input  logic rst_main_ni,
  input  logic clk_ref_i,
  output logic clk_hbm_o,
  output logic rst_hbm_no
);

  logic locked;

`ifdef SYNTHESIS
  logic clk_feedback, clk_450;

  MMCME4_ADV #(
    .CLKIN1_PERIOD   (4.000),
    .DIVCLK_DIVIDE   (5),
    .CLKFBOUT_MULT_F (18.000),  // 250 MHz / 5 * 18 = 900 MHz
    .CLKOUT0_DIVIDE_F(2.000)
  ) u_mmcm (
    .CLKIN1      (clk_main_i),
    .CLKIN2      (1'b0),
    .CLKINSEL    (1'b1),
    .CLKFBIN     (clk_feedback),
    .CLKFBOUT    (clk_feedback),
    .CLKFBOUTB(),
    .CLKFBSTOPPED(),
    .CLKINSTOPPED(),
    .CLKOUT0     (clk_450),
    .CLKOUT0B(),
    .CLKOUT1(),
    .CLKOUT1B(),
    .CLKOUT2(),
    .CLKOUT2B(),
    .CLKOUT3(),
    .CLKOUT3B(),
    .CLKOUT4(),
    .CLKOUT5(),
    .CLKOUT6(),
    .LOCKED      (locked),
    .CDDCDONE(),
    .CDDCREQ     (1'b0),
    .DADDR       (7'd0),
    .DCLK        (1'b0),
    .DEN         (1'b0),
    .DI          (16'd0),
    .DO(),
    .DRDY(),
    .DWE         (1'b0),
    .PSCLK       (1'b0),
    .PSDONE(),
    .PSEN        (1'b0),
    .PSINCDEC    (1'b0),
    .PWRDWN      (1'b0),
    .RST         (~rst_main_ni)
  );

  BUFG u_bufg (
    .I(clk_450),
    .O(clk_hbm_o)
  );

  logic unused;
  assign unused = clk_ref_i;
`else
  assign clk_hbm_o = clk_ref_i;
  assign locked    = 1'b1;

  logic unused;
  assign unused = clk_main_i;
`endif

  dpu_f2_sync u_reset (
    .clk_i (clk_hbm_o),
    .rst_ni(rst_main_ni & locked),
    .data_i(1'b1),
    .data_o(rst_hbm_no)
  );

endmodule
