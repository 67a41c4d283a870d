// Corner-turn of LOAD's TRANSPOSE: up to C runs of up to C bytes come in, the C words of their columns go out.
// Two tiles, one filled while the other is read. C byte-wide banks: byte r of run c lies in bank (r + c) mod C, so that
// a run in and a word out both touch each bank once.

module dpu_load_turn
  import dpu_dma_pkg::*;
#(
  parameter int unsigned Cols = 8
) (
  input  logic                  clk_i,
  input  logic                  rst_ni,

  // a word begins: n2 x n3 tiles of `runs` runs
  input  logic                  start_i,
  input  logic [7:0]            runs_i,
  input  logic [7:0]            bytes_i,
  input  logic [15:0]           n2_i,
  input  logic [15:0]           n3_i,

  // runs out of the ring, zeros behind their end
  output logic                  pop_valid_o,
  output logic [7:0]            pop_bytes_o,
  input  logic                  pop_ready_i,
  input  logic [Cols*8-1:0]     run_i,        // in the cycle after the pop

  // words: `read_i` asks for the next one, which is there from the next cycle on, while `take_i` is high
  output logic                  full_o,
  input  logic                  read_i,
  input  logic                  take_i,
  output logic [Cols*8-1:0]     word_o
);

  localparam int unsigned PtrW = $clog2(Cols);

  logic             active_q, write_q, write_last_q;
  logic [7:0]       runs_q, bytes_q, run_q;
  logic [PtrW-1:0]  column_q;
  logic [15:0]      n2_q, i2_q, i3_q;  // tiles to go
  logic             fill_half_q, write_half_q, read_half_q;
  logic [1:0]       full_q;
  logic [PtrW-1:0]  row_q, out_row_q;
  logic [7:0]       columns_q;
  logic             pop, tile_in, tile_out, blocked;

  // A half is filled from the cycle on in which its last word is read: the run is written a cycle later.
  assign blocked     = full_q[fill_half_q] && !(tile_out && read_half_q == fill_half_q);
  assign pop_valid_o = active_q && !blocked && runs_q != '0;
  assign pop_bytes_o = bytes_q;
  assign pop         = pop_valid_o & pop_ready_i;
  assign tile_in     = active_q && !blocked && (runs_q == '0 || (pop && run_q + 8'd1 == runs_q));
  assign tile_out    = read_i && row_q == PtrW'(Cols - 1);
  assign full_o      = full_q[read_half_q];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      active_q     <= 1'b0;
      write_q      <= 1'b0;
      write_last_q <= 1'b0;
      write_half_q <= 1'b0;
      fill_half_q  <= 1'b0;
      read_half_q  <= 1'b0;
      full_q       <= '0;
      row_q        <= '0;
    end else begin
      if (start_i) active_q <= 1'b1;
      else if (tile_in && i2_q == '0 && i3_q == '0) active_q <= 1'b0;
      if (tile_in) fill_half_q <= ~fill_half_q;
      write_q      <= pop | (tile_in && runs_q == '0);
      write_last_q <= tile_in;
      write_half_q <= fill_half_q;
      if (write_q && write_last_q) full_q[write_half_q] <= 1'b1;
      if (tile_out) begin
        full_q[read_half_q] <= 1'b0;
        read_half_q         <= ~read_half_q;
      end
      if (read_i) row_q <= row_q + PtrW'(1);
    end
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      runs_q  <= runs_i;
      bytes_q <= bytes_i;
      run_q   <= '0;
      n2_q    <= n2_i - 16'd1;
      i2_q    <= n2_i - 16'd1;
      i3_q    <= n3_i - 16'd1;
    end else begin
      if (pop) run_q <= tile_in ? '0 : run_q + 8'd1;
      if (tile_in) begin
        i2_q <= i2_q == '0 ? n2_q : i2_q - 16'd1;
        if (i2_q == '0) i3_q <= i3_q - 16'd1;
      end
    end
    if (pop) column_q <= run_q[PtrW-1:0];
    if (read_i) begin
      out_row_q <= row_q;
      columns_q <= runs_q;
    end
  end

  // Byte i of what is written is byte (i - run) mod C of the run.
  logic [Cols*8-1:0] write_data, read_data, mask;
  always_comb begin
    write_data = run_i;
    for (int unsigned k = 0; k < PtrW; k++) begin
      if (write_q && column_q[k]) write_data = (write_data << (8 << k)) | (write_data >> (8 * Cols - (8 << k)));
    end
  end

  for (genvar b = 0; b < Cols; b++) begin : gen_bank
    logic [7:0]      mem [2*Cols];
    logic [7:0]      read_q;
    logic [PtrW-1:0] from;
    assign from = PtrW'(b) - row_q;
    always_ff @(posedge clk_i) begin
      if (write_q) mem[{write_half_q, column_q}] <= write_data[b*8+:8];
      if (read_i) read_q <= mem[{read_half_q, from}];
    end
    assign read_data[b*8+:8] = read_q;
  end

  // Columns behind the last run are zero.
  always_comb begin
    mask   = '0;
    word_o = read_data;
    for (int unsigned k = 0; k < PtrW; k++) begin
      if (take_i && out_row_q[k]) word_o = (word_o >> (8 << k)) | (word_o << (8 * Cols - (8 << k)));
    end
    if (take_i) mask = columns_q >= 8'(Cols) ? '1 : ~((Cols * 8)'('1) << {columns_q[PtrW-1:0], 3'b000});
    word_o &= mask;
  end

endmodule
