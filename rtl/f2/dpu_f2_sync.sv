// Brings a bit or a Gray-coded number into another clock: two registers.
// Of a vector at most one bit may change at a time. `Reset` is what it shows in reset.

module dpu_f2_sync #(
  parameter int unsigned      Width = 1,
  parameter logic [Width-1:0] Reset = '0
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic [Width-1:0] data_i,
  output logic [Width-1:0] data_o
);

  (* ASYNC_REG = "TRUE" *) logic [Width-1:0] first_q, second_q;

  assign data_o = second_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      first_q  <= Reset;
      second_q <= Reset;
    end else begin
      first_q  <= data_i;
      second_q <= first_q;
    end
  end

endmodule
