// Proof of dpu_fetch and dpu_axi_read: AXI rules of the tile's read addresses, room for every beat, no word outside the program.
// Program and length are any. `load_*` is any reader that keeps the rules of a page; beats of the two may be mixed.
// Assumed: memory answers what was asked; a stream starts when the last is over; END comes once; the program ends in 2^64.

module dpu_fetch_formal #(
  parameter int unsigned FifoWords = 64
) (
  input logic               clk_i,
  input logic               stop_i,
  input logic               start_i,
  input dpu_pkg::axi_addr_t program_i,
  input logic [31:0]        words_i,
  input logic               end_i,
  input logic               word_ready_i,
  input logic               load_ar_valid_i,
  input dpu_pkg::axi_addr_t load_ar_addr_i,
  input logic [7:0]         load_ar_len_i,
  input logic               load_r_ready_i,
  input logic               ar_ready_i,
  input logic               r_valid_i,
  input logic [0:0]         r_id_i,
  input logic [1:0]         r_resp_i
);

  logic               rst_ni;
  logic               fetch_ar_valid, fetch_ar_ready, fetch_r_valid, fetch_r_ready, load_ar_ready, load_r_valid;
  logic               ar_valid, r_ready, word_valid, word_error, exhausted, quiet;
  logic [0:0]         ar_id;
  dpu_pkg::axi_addr_t fetch_ar_addr, ar_addr;
  logic [7:0]         fetch_ar_len, ar_len;
  dpu_pkg::word_t     word;

  dpu_formal_reset u_reset (.clk_i, .rst_no(rst_ni));
  dpu_fetch #(.FifoWords(FifoWords)) dut (
    .*, .ar_valid_o(fetch_ar_valid), .ar_ready_i(fetch_ar_ready), .ar_addr_o(fetch_ar_addr), .ar_len_o(fetch_ar_len),
    .r_valid_i(fetch_r_valid), .r_ready_o(fetch_r_ready), .r_data_i('0), .word_valid_o(word_valid), .word_o(word),
    .word_error_o(word_error), .exhausted_o(exhausted), .quiet_o(quiet)
  );
  dpu_axi_read u_axi (
    .*, .load_ar_ready_o(load_ar_ready), .load_r_valid_o(load_r_valid), .fetch_ar_valid_i(fetch_ar_valid),
    .fetch_ar_ready_o(fetch_ar_ready), .fetch_ar_addr_i(fetch_ar_addr), .fetch_ar_len_i(fetch_ar_len),
    .fetch_r_valid_o(fetch_r_valid), .fetch_r_ready_i(fetch_r_ready), .ar_valid_o(ar_valid), .ar_id_o(ar_id),
    .ar_addr_o(ar_addr), .ar_len_o(ar_len), .r_ready_o(r_ready)
  );

  // The bus: beats of fetch that were asked for on it, and what it showed in the last cycle.
  logic               asked, beat, wait_q, load_wait_q, load_asked;
  logic [0:0]         id_q;
  dpu_pkg::axi_addr_t addr_q, load_addr_q;
  logic [7:0]         len_q, load_len_q;
  logic [15:0]        owed_q;
  logic [31:0]        load_owed_q;
  assign asked      = ar_valid & ar_ready_i & ar_id[0];
  assign load_asked = ar_valid & ar_ready_i & ~ar_id[0];
  assign beat       = r_valid_i & r_ready & r_id_i[0];
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {wait_q, load_wait_q} <= '0;
      owed_q      <= '0;
      load_owed_q <= '0;
    end else begin
      wait_q      <= ar_valid & ~ar_ready_i;
      load_wait_q <= load_ar_valid_i & ~load_ar_ready;
      owed_q      <= owed_q + (asked ? 16'(ar_len) + 16'd1 : '0) - 16'(beat);
      load_owed_q <= load_owed_q + (load_asked ? 32'(ar_len) + 32'd1 : '0) - 32'(r_valid_i & r_ready & ~r_id_i[0]);
    end
  end
  always_ff @(posedge clk_i) begin
    {id_q, addr_q, len_q}     <= {ar_id, ar_addr, ar_len};
    {load_addr_q, load_len_q} <= {load_ar_addr_i, load_ar_len_i};
  end

  // The stream.
  logic               live_q, ended_q;
  dpu_pkg::axi_addr_t program_q;
  logic [31:0]        words_q, taken_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      live_q  <= 1'b0;
      ended_q <= 1'b0;
      taken_q <= '0;
    end else if (start_i) begin
      live_q  <= 1'b1;
      ended_q <= 1'b0;
      taken_q <= '0;
    end else begin
      if (end_i) ended_q <= 1'b1;
      taken_q <= taken_q + 32'(word_valid & word_ready_i);
    end
  end
  always_ff @(posedge clk_i) if (start_i) {program_q, words_q} <= {program_i, words_i};

  logic [64:0]  end_of_program, end_given;
  logic [15:0]  filled, register;
  logic         active;
  assign end_given      = {1'b0, program_i} + 65'({words_i, 6'd0});
  assign end_of_program = {1'b0, program_q} + 65'({words_q, 6'd0});
  assign filled         = 16'(dut.u_fifo.count_q);
  assign active         = live_q & ~ended_q;
  assign register       = (ar_valid && ar_id[0]) ? 16'(ar_len) + 16'd1 : '0;  // an address on its way to the bus

  always_comb begin
    if (rst_ni) begin
      // memory
      assume (!(r_valid_i && r_id_i[0]) || owed_q != '0);
      assume (!(r_valid_i && !r_id_i[0]) || load_owed_q != '0);
      // LOAD: proved of dpu_load
      assume (!load_wait_q || (load_ar_valid_i && load_ar_addr_i == load_addr_q && load_ar_len_i == load_len_q));
      assume (!load_ar_valid_i || (load_ar_addr_i[5:0] == '0 && 9'(load_ar_addr_i[11:6]) + 9'(load_ar_len_i) < 9'd64));
      // control and dispatch
      assume (!start_i || (!active && quiet && owed_q == '0 && filled == '0));
      assume (!start_i || (program_i[5:0] == '0 && end_given <= {1'b1, 64'd0}));
      assume (!end_i || (active && word_valid && word_ready_i));

      ArStays: assert (!wait_q || (ar_valid && ar_id == id_q && ar_addr == addr_q && ar_len == len_q));
      ArInPage: assert (!ar_valid || (ar_addr[5:0] == '0 && 9'(ar_addr[11:6]) + 9'(ar_len) < 9'd64));
      FetchLength: assert (!fetch_ar_valid || fetch_ar_len < 8'd16);
      InProgram: assert (!(ar_valid && ar_id[0]) || (ar_addr >= program_q &&
                         {1'b0, ar_addr} + 65'({ar_len + 9'd1, 6'd0}) <= end_of_program));
      RoomForBeats: assert (!fetch_r_valid || (r_ready && (filled < 16'(FifoWords) || !active)));
      NoBeatLost: assert (!(fetch_r_valid && active) || dut.u_fifo.wr_ready_o);
      Quiet: assert (!quiet || (owed_q == '0 && !(ar_valid && ar_id[0])));
      AllDelivered: assert (!exhausted || taken_q == words_q);
      NeverStuck: assert (!(active && !stop_i && !end_i) || fetch_ar_valid || dut.owed_q != '0 || word_valid || exhausted);
      Forwarded: assert (fetch_r_valid == (r_valid_i && r_id_i[0]) && load_r_valid == (r_valid_i && !r_id_i[0]));
      // for induction
      Owed: assert (16'(dut.owed_q) == owed_q + register);
      Bounded: assert (owed_q <= 16'(FifoWords) && register <= 16'd16);
      Active: assert (dut.active_q == active);
      Used: assert (!active || (16'(dut.used_q) == filled + 16'(dut.owed_q) && 16'(dut.used_q) <= 16'(FifoWords)));
      UsedLater: assert (active || 16'(dut.owed_q) <= 16'(FifoWords));
      EmptyAfterEnd: assert (active || filled == '0);
      Split: assert (!active || 34'(taken_q) + 34'(filled) + 34'(dut.owed_q) + 34'(dut.left_q) == 34'(words_q));
      NextAddress: assert (!active || dut.next_q + 64'({dut.left_q, 6'd0}) == end_of_program[63:0]);
      Asked: assert (!active || (dut.next_q[5:0] == '0 && program_q[5:0] == '0 && end_of_program <= {1'b1, 64'd0} &&
                     (dut.next_q >= program_q || dut.left_q == '0)));
      Pointers: assert (16'(dut.u_fifo.wr_ptr_q) == ((16'(dut.u_fifo.rd_ptr_q) + filled) & 16'(FifoWords - 1)) && filled <= 16'(FifoWords));
      CoverPageEnd: cover (ar_valid && ar_ready_i && ar_id[0] && ar_len == 8'd2 && words_q > 32'd9);
      CoverHeldBack: cover (active && dut.left_q != '0 && !fetch_ar_valid && filled + owed_q > 16'd48);
      CoverSecondStream: cover (start_i && ended_q);
      CoverDropped: cover (ended_q && beat);
      CoverExhausted: cover (exhausted && words_q == 32'd2);
      CoverMixed: cover (load_owed_q != '0 && owed_q != '0 && r_valid_i && r_ready && load_wait_q);
    end
  end

endmodule
