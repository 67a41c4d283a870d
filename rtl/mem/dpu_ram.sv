// A memory with one read and one write port; the word read is there in the next cycle.
// A read and a write of one address in one cycle give the old word. The contents are not reset.
// The read register keeps its word until the next read.

module dpu_ram #(
  parameter int unsigned Words = 64,
  parameter int unsigned Width = 32,
  localparam int unsigned AddrW = (Words > 1) ? $clog2(Words) : 1
) (
  input  logic             clk_i,

  input  logic             rd_en_i,
  input  logic [AddrW-1:0] rd_addr_i,
  output logic [Width-1:0] rd_data_o,

  input  logic             wr_en_i,
  input  logic [AddrW-1:0] wr_addr_i,
  input  logic [Width-1:0] wr_data_i
);

  logic [Width-1:0] mem [Words];
  logic [Width-1:0] rd_data_q;

  assign rd_data_o = rd_data_q;

  always_ff @(posedge clk_i) begin
    if (wr_en_i) mem[wr_addr_i] <= wr_data_i;
    if (rd_en_i) rd_data_q <= mem[rd_addr_i];
  end

endmodule
