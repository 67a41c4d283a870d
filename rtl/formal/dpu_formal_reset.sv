// Reset for proofs: low in the first cycle, high from then on.
// The first state of an induction step is any state, so there reset may already be over.
// Used by all wrappers of this folder in place of an input.

module dpu_formal_reset (
  input  logic clk_i,
  output logic rst_no
);

  logic up_q = 1'b0;

  always_ff @(posedge clk_i) up_q <= 1'b1;
  assign rst_no = up_q;

endmodule
