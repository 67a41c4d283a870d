// Proof of dpu_semaphores: no counter passes its maximum or goes below zero, and each mask bit means its semaphore.
// One semaphore (producer, consumer, number) and one tile's remote counter are any; a reference count is kept of each.
// Assumed is what queues do: give under `signal_ready_o`, take under `wait_ready_o`, send to a tile that is not full.

module dpu_semaphores_formal #(
  parameter int unsigned Tiles = 2
) (
  input logic             clk_i,
  input logic [3:0][15:0] wait_mask_i,
  input logic [31:0]      wait_remote_i,
  input logic [3:0]       wait_take_i,
  input logic [3:0][15:0] signal_mask_i,
  input logic [3:0]       signal_give_i,
  input logic [Tiles-1:0] remote_token_i,
  input logic [6:0]       any_i  // sampled while in reset
);

  localparam int unsigned Max  = dpu_isa_pkg::MaxTokens;
  localparam int unsigned Each = dpu_isa_pkg::SemaphoresPerPair;

  logic             rst_ni;
  logic [3:0]       wait_ready, signal_ready;
  logic [Tiles-1:0] remote_full;

  dpu_formal_reset u_reset (.clk_i, .rst_no(rst_ni));
  dpu_semaphores #(.Tiles(Tiles)) dut (
    .*, .wait_ready_o(wait_ready), .signal_ready_o(signal_ready), .remote_full_o(remote_full)
  );

  // Any semaphore, any tile.
  logic [1:0] p_q, c_q, k_q;
  logic [0:0] t_q;
  always_ff @(posedge clk_i) if (!rst_ni) {p_q, c_q, k_q, t_q} <= any_i;

  logic [3:0] give_bit, take_bit;
  logic       give, take, remote_give, remote_take, remote_wanted;
  assign give_bit      = 4'(Each * 32'(c_q) + 32'(k_q));
  assign take_bit      = 4'(Each * 32'(p_q) + 32'(k_q));
  assign give          = signal_give_i[p_q] & signal_mask_i[p_q][give_bit];
  assign take          = wait_take_i[c_q] & wait_mask_i[c_q][take_bit];
  assign remote_wanted = wait_remote_i[32'(t_q)];
  assign remote_give   = remote_token_i[t_q];
  assign remote_take   = wait_take_i[0] & remote_wanted;

  logic [15:0] count_q, remote_q;
  logic        was_full_q, remote_was_full_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      count_q           <= '0;
      remote_q          <= '0;
      was_full_q        <= 1'b0;
      remote_was_full_q <= 1'b0;
    end else begin
      count_q           <= count_q + 16'(give) - 16'(take);
      remote_q          <= remote_q + 16'(remote_give) - 16'(remote_take);
      was_full_q        <= was_full_q | (count_q == 16'(Max));
      remote_was_full_q <= remote_was_full_q | (remote_q == 16'(Max));
    end
  end

  logic [5:0] at;
  assign at = {c_q, p_q, k_q};

  always_comb begin
    if (rst_ni) begin
      assume ((wait_take_i & ~wait_ready) == '0);
      assume ((signal_give_i & ~signal_ready) == '0);
      assume ((remote_token_i & remote_full) == '0);
      assume ((wait_remote_i >> Tiles) == '0);  // dispatch refuses other tiles

      NoOverflow: assert (count_q <= 16'(Max) && !(give && count_q == 16'(Max)));
      NoUnderflow: assert (!(take && count_q == '0));
      RemoteNoOverflow: assert (remote_q <= 16'(Max) && !(remote_give && remote_q == 16'(Max)));
      RemoteNoUnderflow: assert (!(remote_take && remote_q == '0));
      TokensThere: assert (!(wait_ready[c_q] && wait_mask_i[c_q][take_bit]) || count_q != '0);
      RoomThere: assert (!(signal_ready[p_q] && signal_mask_i[p_q][give_bit]) || count_q != 16'(Max));
      // nothing else holds a word back
      ReadyWithoutMask: assert (wait_mask_i[c_q] != '0 || (c_q == '0 && wait_remote_i != '0) || wait_ready[c_q]);
      ReadyForOne: assert (wait_mask_i[c_q] != (16'd1 << take_bit) || (c_q == '0 && wait_remote_i != '0) ||
                           wait_ready[c_q] == (count_q != '0));
      GiveForOne: assert (signal_mask_i[p_q] != (16'd1 << give_bit) || signal_ready[p_q] == (count_q != 16'(Max)));
      // for induction
      Same: assert (16'(dut.count_q[at]) == count_q && 16'(dut.remote_q[t_q]) == remote_q);
      Flags: assert (dut.some_q[at] == (count_q != '0) && dut.full_q[at] == (count_q == 16'(Max)));
      RemoteFlags: assert (dut.remote_some_q[t_q] == (remote_q != '0) &&
                           dut.remote_full_q[t_q] == (remote_q == 16'(Max)));
      CoverBoth: cover (give && take);
      CoverEmptied: cover (was_full_q && count_q == '0);
      CoverHeldBack: cover (count_q == 16'(Max) && signal_mask_i[p_q][give_bit] && !signal_ready[p_q]);
      CoverRemote: cover (remote_was_full_q && remote_q == '0);
      CoverMissing: cover (!wait_ready[c_q] && wait_mask_i[c_q][take_bit]);
    end
  end

endmodule
