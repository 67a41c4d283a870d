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

  localparam int unsigned RowBytes = OutBytes > InBytes ? OutBytes : InBytes;  // a push or a pop touches two rows
  localparam int unsigned ColW = $clog2(RowBytes);
  localparam int unsigned Rows = Bytes / RowBytes;
  localparam int unsigned RowW = PtrW - ColW;

  // Wide signals are set under their valid bit and no function has wide arguments: both cost simulation time when idle.
  // Words are turned by powers of two, the largest first, and each byte of a row has its own enable and its own choice
  // of a row: shifts and masks of whole windows are several times as large.
  logic [RowBytes*8-1:0] ring_q [Rows];
  logic [PtrW-1:0]       wr_q, rd_q;
  logic [PtrW:0]         level_q;
  logic [OutBytes*8-1:0] word_q;

  // Push: turned so that each byte stands where its position in the ring has it. InBytes from the write pointer on are
  // free, so all of them are written whatever the count.
  logic [RowW-1:0]   wr_row;
  logic [ColW-1:0]   wr_col;
  logic [InPtrW-1:0] turn;

  assign wr_row = wr_q[PtrW-1:ColW];
  assign wr_col = wr_q[ColW-1:0];
  assign turn   = wr_col[InPtrW-1:0] - push_first_i;

  always_ff @(posedge clk_i) begin
    if (push_valid_i) begin : push
      logic [InBytes*8-1:0] turned;
      logic [RowBytes-1:0]  here, next;  // bytes of the pointer's row, of the row behind it
      turned = push_data_i;
      for (int unsigned k = InPtrW; k > 0; k--) begin
        if (turn[k-1]) turned = (turned << (4 << k)) | (turned >> (8 * InBytes - (4 << k)));
      end
      {next, here} = (2 * RowBytes)'({InBytes{1'b1}}) << wr_col;
      for (int unsigned r = 0; r < Rows; r++) begin
        if (wr_row == RowW'(r)) begin
          for (int unsigned b = 0; b < RowBytes; b++) if (here[b]) ring_q[r][8*b+:8] <= turned[8*(b%InBytes)+:8];
        end
        if (wr_row == RowW'(r - 1)) begin
          for (int unsigned b = 0; b < RowBytes; b++) if (next[b]) ring_q[r][8*b+:8] <= turned[8*(b%InBytes)+:8];
        end
      end
    end
  end

  // Pop: of each byte of a row the one that it may touch, turned to the first byte asked for; what is behind the last is
  // filled.
  logic [PtrW-1:0]  rd_at;
  logic [RowW-1:0]  rd_row;
  logic [ColW-1:0]  rd_col;
  logic [OutPtrW:0] past;

  assign rd_at  = rd_q - PtrW'(pop_first_i);
  assign rd_row = rd_at[PtrW-1:ColW];
  assign rd_col = rd_at[ColW-1:0];
  assign past   = {1'b0, pop_first_i} + pop_count_i;

  always_ff @(posedge clk_i) begin
    if (pop_valid_i) begin : pop
      logic [RowBytes*8-1:0] window;
      logic [OutBytes-1:0]   tail;
      for (int unsigned b = 0; b < RowBytes; b++) begin
        window[8*b+:8] = ring_q[rd_row+RowW'(ColW'(b) < rd_col)][8*b+:8];
      end
      for (int unsigned k = ColW; k > 0; k--) begin
        if (rd_col[k-1]) window = (window >> (4 << k)) | (window << (8 * RowBytes - (4 << k)));
      end
      tail = {OutBytes{1'b1}} << past;
      for (int unsigned b = 0; b < OutBytes; b++) word_q[8*b+:8] <= tail[b] ? pop_fill_i : window[8*b+:8];
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
