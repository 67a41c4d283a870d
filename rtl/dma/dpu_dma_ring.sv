// Realigns a byte stream: takes up to InBytes a cycle from any byte of a beat on, gives up to OutBytes at any byte.
// A ring of Bytes bytes. `level_o` is what can be taken now; it is at most Bytes - InBytes before a push.
// A pop gives its word in the next cycle: `pop_count_i` bytes from byte `pop_first_i` on, `pop_fill_i` beyond them.

module dpu_dma_ring #(
  parameter int unsigned InBytes = 64,  // powers of two
  parameter int unsigned OutBytes = 64,
  parameter int unsigned Bytes = 256,
  localparam int unsigned InPtrW = $clog2(InBytes),
  localparam int unsigned OutPtrW = $clog2(OutBytes),
  localparam int unsigned PtrW = $clog2(Bytes)
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,

  input  logic                    push_valid_i,
  input  logic [InBytes*8-1:0]    push_data_i,
  input  logic [InPtrW-1:0]       push_first_i,
  input  logic [InPtrW:0]         push_count_i,

  input  logic                    pop_valid_i,
  input  logic [OutPtrW-1:0]      pop_first_i,
  input  logic [OutPtrW:0]        pop_count_i,
  input  logic [7:0]              pop_fill_i,
  output logic [OutBytes*8-1:0]   word_o,

  output logic [PtrW:0]           level_o
);

  localparam int unsigned Rows = Bytes / InBytes;
  localparam int unsigned RowW = PtrW - InPtrW;
  localparam int unsigned Seen = OutBytes > InBytes ? OutBytes / InBytes + 1 : 2;  // rows that a pop may touch
  localparam int unsigned WindowW = Seen * InBytes * 8;

  // Wide signals are set under their valid bit and no function has wide arguments: both cost simulation time when idle.
  logic [InBytes*8-1:0]  ring_q [Rows];
  logic [PtrW-1:0]       wr_q, rd_q;
  logic [PtrW:0]         level_q;
  logic [OutBytes*8-1:0] word_q;

  // Push: rotated so that each byte stands where its position in the ring has it. InBytes from the write pointer on are
  // free, so the rest of its row and the part before it of the next row are written whatever the count.
  logic [RowW-1:0]       wr_row;
  logic [InPtrW-1:0]     wr_first;
  logic [InBytes*8-1:0]  rotated, behind;

  assign wr_row   = wr_q[PtrW-1:InPtrW];
  assign wr_first = wr_q[InPtrW-1:0];

  always_comb begin
    rotated = '0;
    behind  = '0;
    if (push_valid_i) begin
      rotated = (InBytes * 8)'({push_data_i, push_data_i} >> {push_first_i - wr_first, 3'b000});
      behind  = (InBytes * 8)'('1) << {wr_first, 3'b000};
    end
  end

  always_ff @(posedge clk_i) begin
    if (push_valid_i) begin
      ring_q[wr_row]         <= (ring_q[wr_row] & ~behind) | (rotated & behind);
      ring_q[wr_row+RowW'(1)] <= (ring_q[wr_row+RowW'(1)] & behind) | (rotated & ~behind);
    end
  end

  // Pop: the rows that it may touch, moved to the first byte asked for; what is behind the last is filled.
  logic [RowW-1:0]       rd_row;
  logic [PtrW-1:0]       rd_at;
  logic [OutPtrW:0]      past;
  logic                  partly;
  logic [WindowW-1:0]    window;
  logic [OutBytes*8-1:0] tail;

  assign rd_at  = rd_q - PtrW'(pop_first_i);
  assign rd_row = rd_at[PtrW-1:InPtrW];
  assign past   = {1'b0, pop_first_i} + pop_count_i;
  assign partly = past < (OutPtrW + 1)'(OutBytes);

  always_comb begin
    window = '0;
    tail   = '0;
    if (pop_valid_i) begin
      for (int unsigned k = 0; k < Seen; k++) window[k*InBytes*8+:InBytes*8] = ring_q[rd_row+RowW'(k)];
      tail = (OutBytes * 8)'('1) << {past[OutPtrW-1:0], 3'b000};
    end
  end

  always_ff @(posedge clk_i) begin
    if (pop_valid_i) begin
      if (partly) begin
        word_q <= ((OutBytes * 8)'(window >> {rd_at[InPtrW-1:0], 3'b000}) & ~tail) | ({OutBytes{pop_fill_i}} & tail);
      end else begin
        word_q <= (OutBytes * 8)'(window >> {rd_at[InPtrW-1:0], 3'b000});
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      wr_q    <= '0;
      rd_q    <= '0;
      level_q <= '0;
    end else if (push_valid_i || pop_valid_i) begin
      if (push_valid_i) wr_q <= wr_q + PtrW'(push_count_i);
      if (pop_valid_i) rd_q <= rd_q + PtrW'(pop_count_i);
      level_q <= level_q + (push_valid_i ? (PtrW + 1)'(push_count_i) : '0) -
          (pop_valid_i ? (PtrW + 1)'(pop_count_i) : '0);
    end
  end

  assign level_o = level_q;
  assign word_o  = word_q;

`ifndef SYNTHESIS
  // Waiver: the assertions sample the asynchronous reset on purpose.
  /* verilator lint_off SYNCASYNCNET */
  NoOverflow: assert property (
    @(posedge clk_i) disable iff (!rst_ni) push_valid_i |-> level_q <= (PtrW + 1)'(Bytes - InBytes));
  NoUnderflow: assert property (
    @(posedge clk_i) disable iff (!rst_ni) pop_valid_i |-> (PtrW + 1)'(pop_count_i) <= level_q);
  /* verilator lint_on SYNCASYNCNET */
`endif

endmodule
