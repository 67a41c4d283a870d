// Proof of dpu_remote: no token to another tile is lost, made up or sent to a full counter, and each arrives.
// Tokens to one tile, any, are counted as they are given and as they arrive.
// Assumed is what dpu_sequencer does: tokens are given only under `signal_ready_o`.

module dpu_remote_formal #(
  parameter int unsigned Tiles   = 3,
  parameter int unsigned Latency = 4
) (
  input logic             clk_i,
  input logic             signal_give_i,
  input logic [Tiles-1:0] signal_mask_i,
  input logic [Tiles-1:0] full_i,
  input logic [1:0]       any_i  // sampled while in reset
);

  logic             rst_ni, signal_ready, idle;
  logic [Tiles-1:0] token;
  logic [1:0]       t_q;

  dpu_formal_reset u_reset (.clk_i, .rst_no(rst_ni));
  dpu_remote #(.Tiles(Tiles), .Latency(Latency)) dut (.*, .signal_ready_o(signal_ready), .token_o(token), .idle_o(idle));

  always_ff @(posedge clk_i) if (!rst_ni) t_q <= any_i;

  logic       give, arrive, free_q;
  logic [7:0] owed_q;          // tokens to tile t_q on their way
  logic [7:0] owed_ring;
  logic [7:0] flight_q;        // cycles that the oldest token has moved
  assign give   = signal_give_i && signal_mask_i != '0;
  assign arrive = token != '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      owed_q   <= '0;
      flight_q <= '0;
      free_q   <= 1'b1;
    end else begin
      owed_q   <= owed_q + 8'(signal_give_i & signal_mask_i[t_q]) - 8'(token[t_q]);
      free_q   <= free_q && full_i == '0;
      flight_q <= (dut.valid_q == '0 || arrive) ? '0 : flight_q + 8'(!dut.stuck);
    end
  end
  always_comb begin
    owed_ring = '0;
    for (int unsigned i = 0; i < Latency; i++) owed_ring += 8'(dut.valid_q[i] & dut.mask[i][t_q]);
  end

  // How far the next valid slot is ahead of the pointer: it only falls, but where a token arrives.
  logic [7:0] distance, distance_q;
  logic       named;  // each token on its way names a tile
  logic       moved_q;
  always_comb begin
    distance = 8'(Latency);
    named    = 1'b1;
    for (int unsigned i = Latency; i > 0; i--) begin
      if (dut.valid_q[(32'(dut.ptr_q) + i - 1) % Latency]) distance = 8'(i - 1);
      if (dut.valid_q[i-1] && dut.mask[i-1] == '0) named = 1'b0;
    end
  end
  always_ff @(posedge clk_i) begin
    distance_q <= distance;
    moved_q    <= rst_ni && dut.valid_q != '0 && full_i == '0 && !arrive;
  end

  always_comb begin
    if (rst_ni) begin
      assume (!signal_give_i || signal_ready);
      assume (32'(t_q) < Tiles);

      NoneLost: assert (owed_q == owed_ring);
      NoneMadeUp: assert (!(token[t_q] && owed_q == '0));
      NotToFull: assert ((token & full_i) == '0);
      Idle: assert (!idle || owed_q == '0);
      Bounded: assert (owed_q <= 8'(Latency));
      // it moves a slot a cycle while nobody is full, so it arrives
      Moves: assert (!moved_q || distance < distance_q);
      Pointer: assert (32'(dut.ptr_q) < Latency);
      Named: assert (named);
      CoverStuck: cover (dut.stuck && signal_give_i == 1'b0 && owed_q == 8'd3);
      CoverArrives: cover (token == '1 && free_q);
      CoverIdleAgain: cover (idle && flight_q == '0 && !free_q);
    end
  end

endmodule
