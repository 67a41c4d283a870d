// A global clock buffer: ports only.
// Names: AMD UG974.
// A stub so that the synthesis branch of dpu_f2_clocks can be read; the device has the block.

module BUFG (
  input  logic I,
  output logic O
);
endmodule
