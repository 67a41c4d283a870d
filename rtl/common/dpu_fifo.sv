// A first-in first-out buffer of any depth with valid and ready on both sides.
// Written words can be read from the next cycle on; `clear_i` empties it and wins over a write and a read.
// `count_o` tells how many words are inside.

module dpu_fifo #(
  parameter int unsigned Width = 32,
  parameter int unsigned Depth = 4,
  localparam int unsigned CountW = $clog2(Depth + 1)
) (
  input  logic              clk_i,
  input  logic              rst_ni,
  input  logic              clear_i,

  input  logic              wr_valid_i,
  output logic              wr_ready_o,
  input  logic [Width-1:0]  wr_data_i,

  output logic              rd_valid_o,
  input  logic              rd_ready_i,
  output logic [Width-1:0]  rd_data_o,

  output logic [CountW-1:0] count_o
);

  localparam int unsigned PtrW = (Depth > 1) ? $clog2(Depth) : 1;

  logic [Width-1:0]  mem [Depth];
  logic [PtrW-1:0]   wr_ptr_q, rd_ptr_q;
  logic [CountW-1:0] count_q;
  logic              write, read;

  assign wr_ready_o = count_q != CountW'(Depth);
  assign rd_valid_o = count_q != '0;
  assign rd_data_o  = mem[rd_ptr_q];
  assign count_o    = count_q;
  assign write      = wr_valid_i & wr_ready_o;
  assign read       = rd_valid_o & rd_ready_i;

  function automatic logic [PtrW-1:0] next(input logic [PtrW-1:0] ptr);
    return (ptr == PtrW'(Depth - 1)) ? '0 : ptr + PtrW'(1);
  endfunction

  always_ff @(posedge clk_i) begin
    if (write) mem[wr_ptr_q] <= wr_data_i;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      wr_ptr_q <= '0;
      rd_ptr_q <= '0;
      count_q  <= '0;
    end else if (clear_i) begin
      wr_ptr_q <= '0;
      rd_ptr_q <= '0;
      count_q  <= '0;
    end else begin
      if (write) wr_ptr_q <= next(wr_ptr_q);
      if (read) rd_ptr_q <= next(rd_ptr_q);
      if (write && !read) count_q <= count_q + CountW'(1);
      if (read && !write) count_q <= count_q - CountW'(1);
    end
  end

endmodule
