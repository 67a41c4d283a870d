// The semaphores of a tile: four for each pair of producer and consumer engine, and one from each tile's STORE to LOAD.
// A word's tokens are taken, and its signals given, all in one cycle. A signal and a wait in one cycle both count.
// No counter passes its maximum: `signal_ready_o` and `remote_full_o` hold the producer back.

module dpu_semaphores #(
  parameter int unsigned Tiles = 1
) (
  input  logic             clk_i,
  input  logic             rst_ni,

  // consumers, by engine: bit 4 p + k of a mask is semaphore k of (p, this engine)
  input  logic [3:0][15:0] wait_mask_i,
  input  logic [31:0]      wait_remote_i,  // LOAD: bit t, a token of tile t
  output logic [3:0]       wait_ready_o,
  input  logic [3:0]       wait_take_i,

  // producers, by engine: bit 4 c + k of a mask is semaphore k of (this engine, c)
  input  logic [3:0][15:0] signal_mask_i,
  output logic [3:0]       signal_ready_o,
  input  logic [3:0]       signal_give_i,

  // tokens of other tiles' STORE
  input  logic [Tiles-1:0] remote_token_i,
  output logic [Tiles-1:0] remote_full_o
);

  localparam int unsigned Max    = dpu_isa_pkg::MaxTokens;
  localparam int unsigned CountW = $clog2(Max + 1);
  localparam int unsigned Each   = dpu_isa_pkg::SemaphoresPerPair;
  localparam int unsigned Load   = 32'(dpu_isa_pkg::EngineLoad);
  localparam int unsigned N      = 16 * Each;  // semaphore k of (p, c) is number (4 c + p) * Each + k

  // Only the flags are compared each cycle; counts change when something is given or taken.
  logic [N-1:0][CountW-1:0]     count_q;
  logic [N-1:0]                 some_q, full_q, give, take;
  logic [Tiles-1:0][CountW-1:0] remote_q;
  logic [Tiles-1:0]             remote_some_q, remote_full_q, remote_take;
  logic                         remote_missing;

  for (genvar c = 0; c < 4; c++) begin : gen_consumer
    assign take[4*Each*c+:4*Each] = wait_take_i[c] ? wait_mask_i[c] : '0;
    for (genvar p = 0; p < 4; p++) begin : gen_producer
      assign give[(4*c+p)*Each+:Each] = signal_give_i[p] ? signal_mask_i[p][Each*c+:Each] : '0;
    end
  end

  assign remote_missing = (wait_remote_i & ~32'(remote_some_q)) != '0;
  assign remote_take    = wait_take_i[Load] ? wait_remote_i[Tiles-1:0] : '0;
  assign remote_full_o  = remote_full_q;

  for (genvar e = 0; e < 4; e++) begin : gen_ready
    logic [15:0] full;  // in the order of this producer's mask
    for (genvar c = 0; c < 4; c++) begin : gen_full
      assign full[Each*c+:Each] = full_q[(4*c+e)*Each+:Each];
    end
    assign signal_ready_o[e] = (signal_mask_i[e] & full) == '0;
    assign wait_ready_o[e]   = ((wait_mask_i[e] & ~some_q[16*e+:16]) == '0) &
                               ~((e == Load) & remote_missing);
  end

  function automatic logic [CountW-1:0] step(input logic [CountW-1:0] count, input logic up);
    return up ? count + CountW'(1) : count - CountW'(1);
  endfunction

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      count_q <= '0;
      some_q  <= '0;
      full_q  <= '0;
    end else if ((give ^ take) != '0) begin
      for (int unsigned i = 0; i < N; i++) begin
        if (give[i] != take[i]) begin
          count_q[i] <= step(count_q[i], give[i]);
          some_q[i]  <= give[i] | (count_q[i] != CountW'(1));
          full_q[i]  <= give[i] & (count_q[i] == CountW'(Max - 1));
        end
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      remote_q      <= '0;
      remote_some_q <= '0;
      remote_full_q <= '0;
    end else if ((remote_token_i ^ remote_take) != '0) begin
      for (int unsigned t = 0; t < Tiles; t++) begin
        if (remote_token_i[t] != remote_take[t]) begin
          remote_q[t]      <= step(remote_q[t], remote_token_i[t]);
          remote_some_q[t] <= remote_token_i[t] | (remote_q[t] != CountW'(1));
          remote_full_q[t] <= remote_token_i[t] & (remote_q[t] == CountW'(Max - 1));
        end
      end
    end
  end

`ifndef SYNTHESIS
  // Waiver: the assertion samples the asynchronous reset on purpose.
  /* verilator lint_off SYNCASYNCNET */
  // No token appears from nowhere, none is lost.
  NoLoss: assert property (@(posedge clk_i) disable iff (!rst_ni) (give & full_q) == '0);
  NoDebt: assert property (@(posedge clk_i) disable iff (!rst_ni) (take & ~some_q) == '0);
  NoRemoteLoss: assert property (@(posedge clk_i) disable iff (!rst_ni) (remote_token_i & remote_full_q) == '0);
  /* verilator lint_on SYNCASYNCNET */
`endif

endmodule
