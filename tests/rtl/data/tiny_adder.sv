// Adds two numbers, one cycle later. Exists to test how benches are built and run.
// The result is held until the next valid pair comes; the carry is kept as one bit more.
// There is nothing else to see here.
module tiny_adder #(
    parameter int unsigned Width = 8
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic             valid_i,
    input  logic [Width-1:0] a_i,
    input  logic [Width-1:0] b_i,
    output logic [Width:0]   sum_o
);

  logic [Width:0] sum_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) sum_q <= '0;
    else if (valid_i) sum_q <= {1'b0, a_i} + {1'b0, b_i};
  end

  assign sum_o = sum_q;

endmodule
