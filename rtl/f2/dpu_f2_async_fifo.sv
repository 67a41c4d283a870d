// A first-in first-out buffer from one clock to another, valid and ready on both sides.
// Pointers cross in Gray code, one bit more than an address. A word can be read two to three cycles after it was written.
// Both resets must be low together once, and for three cycles of the slower clock.

module dpu_f2_async_fifo #(
  parameter int unsigned Width = 32,
  parameter int unsigned Depth = 16  // a power of two, at least 4
) (
  input  logic             wr_clk_i,
  input  logic             wr_rst_ni,
  input  logic             wr_valid_i,
  output logic             wr_ready_o,
  input  logic [Width-1:0] wr_data_i,

  input  logic             rd_clk_i,
  input  logic             rd_rst_ni,
  output logic             rd_valid_o,
  input  logic             rd_ready_i,
  output logic [Width-1:0] rd_data_o
);

  localparam int unsigned AddrW = $clog2(Depth);

  typedef logic [AddrW:0] pointer_t;

  logic [Width-1:0] mem [Depth];
  pointer_t         wr_ptr_q, wr_next, wr_gray_q, wr_gray_seen;
  pointer_t         rd_ptr_q, rd_next, rd_gray_q, rd_gray_seen;
  logic             write, read;

  function automatic pointer_t gray(input pointer_t binary);
    return binary ^ (binary >> 1);
  endfunction

  // Full: the writer is a whole round ahead, which in Gray code turns the two upper bits.
  assign wr_ready_o = wr_gray_q != {~rd_gray_seen[AddrW-:2], rd_gray_seen[AddrW-2:0]};
  assign rd_valid_o = rd_gray_q != wr_gray_seen;
  assign rd_data_o  = mem[rd_ptr_q[AddrW-1:0]];
  assign write      = wr_valid_i & wr_ready_o;
  assign read       = rd_valid_o & rd_ready_i;
  assign wr_next    = wr_ptr_q + pointer_t'(1);
  assign rd_next    = rd_ptr_q + pointer_t'(1);

  always_ff @(posedge wr_clk_i) begin
    if (write) mem[wr_ptr_q[AddrW-1:0]] <= wr_data_i;
  end

  always_ff @(posedge wr_clk_i or negedge wr_rst_ni) begin
    if (!wr_rst_ni) begin
      wr_ptr_q  <= '0;
      wr_gray_q <= '0;
    end else if (write) begin
      wr_ptr_q  <= wr_next;
      wr_gray_q <= gray(wr_next);
    end
  end

  always_ff @(posedge rd_clk_i or negedge rd_rst_ni) begin
    if (!rd_rst_ni) begin
      rd_ptr_q  <= '0;
      rd_gray_q <= '0;
    end else if (read) begin
      rd_ptr_q  <= rd_next;
      rd_gray_q <= gray(rd_next);
    end
  end

  dpu_f2_sync #(
    .Width(AddrW + 1)
  ) u_sync_wr (
    .clk_i (rd_clk_i),
    .rst_ni(rd_rst_ni),
    .data_i(wr_gray_q),
    .data_o(wr_gray_seen)
  );

  dpu_f2_sync #(
    .Width(AddrW + 1)
  ) u_sync_rd (
    .clk_i (wr_clk_i),
    .rst_ni(wr_rst_ni),
    .data_i(rd_gray_q),
    .data_o(rd_gray_seen)
  );

endmodule
