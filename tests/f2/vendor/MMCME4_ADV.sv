// The clock manager of UltraScale+: ports only, and the parameters that are set.
// Names and widths: AMD UG974.
// A stub so that the synthesis branch of dpu_f2_clocks can be read; the device has the block.

module MMCME4_ADV #(
  parameter real CLKIN1_PERIOD    = 0.0,
  parameter int  DIVCLK_DIVIDE    = 1,
  parameter real CLKFBOUT_MULT_F  = 5.0,
  parameter real CLKOUT0_DIVIDE_F = 1.0
) (
  input  logic CLKIN1,
  input  logic CLKIN2,
  input  logic CLKINSEL,
  input  logic CLKFBIN,
  input  logic CDDCREQ,
  input  logic DCLK,
  input  logic DEN,
  input  logic DWE,
  input  logic PSCLK,
  input  logic PSEN,
  input  logic PSINCDEC,
  input  logic PWRDWN,
  input  logic RST,
  input  logic [6:0] DADDR,
  input  logic [15:0] DI,
  output logic [15:0] DO,
  output logic CLKFBOUT,
  output logic CLKFBOUTB,
  output logic CLKFBSTOPPED,
  output logic CLKINSTOPPED,
  output logic CLKOUT0,
  output logic CLKOUT0B,
  output logic CLKOUT1,
  output logic CLKOUT1B,
  output logic CLKOUT2,
  output logic CLKOUT2B,
  output logic CLKOUT3,
  output logic CLKOUT3B,
  output logic CLKOUT4,
  output logic CLKOUT5,
  output logic CLKOUT6,
  output logic LOCKED,
  output logic CDDCDONE,
  output logic DRDY,
  output logic PSDONE
);
endmodule
