// Proof of dpu_fifo: it never over- or underflows, and words come out in the order and with the data they went in with.
// Words are numbered as they enter; one number, `tag_q`, is any number, and its data are followed through the buffer.
// Nothing is assumed: any traffic, any `clear_i`.

module dpu_fifo_formal #(
  parameter int unsigned Depth = 5,
  localparam int unsigned CountW = $clog2(Depth + 1),
  localparam int unsigned PtrW = (Depth > 1) ? $clog2(Depth) : 1
) (
  input logic       clk_i,
  input logic       clear_i,
  input logic       wr_valid_i,
  input logic [7:0] wr_data_i,
  input logic       rd_ready_i,
  input logic [7:0] any_i  // sampled while in reset
);

  logic              rst_ni, wr_ready, rd_valid, write, read;
  logic [7:0]        rd_data;
  logic [CountW-1:0] count;

  dpu_formal_reset u_reset (.clk_i, .rst_no(rst_ni));
  dpu_fifo #(.Width(8), .Depth(Depth)) dut (
    .*, .wr_ready_o(wr_ready), .rd_valid_o(rd_valid), .rd_data_o(rd_data), .count_o(count)
  );

  assign write = wr_valid_i & wr_ready;
  assign read  = rd_valid & rd_ready_i;

  logic [7:0] tag_q, written_q, read_q, data_q, held;
  logic       wrapped_q, was_full_q;

  assign held = written_q - read_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) tag_q <= any_i;
    if (write && written_q == tag_q) data_q <= wr_data_i;
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      written_q  <= '0;
      read_q     <= '0;
      wrapped_q  <= 1'b0;
      was_full_q <= 1'b0;
    end else begin
      written_q  <= clear_i ? '0 : written_q + 8'(write);
      read_q     <= clear_i ? '0 : read_q + 8'(read);
      wrapped_q  <= !clear_i && (wrapped_q || (write && dut.wr_ptr_q == PtrW'(Depth - 1)));
      was_full_q <= !clear_i && (was_full_q || held == 8'(Depth));
    end
  end

  // Where the followed word is, if it is inside.
  logic [7:0]      ahead, slot;
  logic            present;
  assign ahead  = tag_q - read_q;
  assign present = ahead < held;
  assign slot   = (8'(dut.rd_ptr_q) + ahead >= 8'(Depth)) ? 8'(dut.rd_ptr_q) + ahead - 8'(Depth) :
                                                            8'(dut.rd_ptr_q) + ahead;

  always_comb begin
    if (rst_ni) begin
      NoOverflow: assert (held <= 8'(Depth) && !(write && held == 8'(Depth)));
      NoUnderflow: assert (!(read && held == '0));
      Counted: assert (8'(count) == held);
      TakesWhileRoom: assert (wr_ready == (held < 8'(Depth)));
      GivesWhileSome: assert (rd_valid == (held != '0));
      InOrder: assert (!(rd_valid && read_q == tag_q) || rd_data == data_q);
      // for induction
      Pointers: assert (dut.wr_ptr_q <= PtrW'(Depth - 1) && dut.rd_ptr_q <= PtrW'(Depth - 1));
      Distance: assert (8'(dut.wr_ptr_q) == ((8'(dut.rd_ptr_q) + held >= 8'(Depth)) ?
                        8'(dut.rd_ptr_q) + held - 8'(Depth) : 8'(dut.rd_ptr_q) + held));
      Kept: assert (!present || dut.mem[slot[PtrW-1:0]] == data_q);
      CoverFull: cover (held == 8'(Depth) && wr_valid_i);
      CoverDrained: cover (was_full_q && held == '0);
      CoverBoth: cover (write && read && wrapped_q);
      CoverClear: cover (clear_i && held > 8'd1 && wr_valid_i);
    end
  end

endmodule
