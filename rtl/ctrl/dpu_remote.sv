// Carries the signals of a tile's STORE to other tiles, Latency cycles later and in order.
// Signals of one STORE arrive at all their tiles in one cycle; where one has no room, this and all later ones wait.
// Whoever waits so holds back the tile's STORE signals, not its tokens on the way.

module dpu_remote #(
  parameter int unsigned Tiles   = 1,
  parameter int unsigned Latency = 40
) (
  input  logic             clk_i,
  input  logic             rst_ni,

  input  logic             signal_give_i,
  input  logic [Tiles-1:0] signal_mask_i,
  output logic             signal_ready_o,

  output logic [Tiles-1:0] token_o,
  input  logic [Tiles-1:0] full_i,
  output logic             idle_o
);

  // A ring in place of a shift register: the slot that is read is the one written Slots cycles ago.
  localparam int unsigned Slots = (Latency > 1) ? Latency : 1;
  localparam int unsigned PtrW  = (Slots > 1) ? $clog2(Slots) : 1;

  logic [Tiles-1:0] mask [Slots];
  logic [Slots-1:0] valid_q;
  logic [PtrW-1:0]  ptr_q;
  logic             stuck, give;

  assign stuck          = valid_q[ptr_q] & ((mask[ptr_q] & full_i) != '0);
  assign signal_ready_o = ~stuck;
  assign give           = signal_give_i & (signal_mask_i != '0);
  assign token_o        = (valid_q[ptr_q] && !stuck) ? mask[ptr_q] : '0;
  assign idle_o         = valid_q == '0;

  always_ff @(posedge clk_i) begin
    if (give) mask[ptr_q] <= signal_mask_i;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= '0;
      ptr_q   <= '0;
    end else if (!stuck && (give || valid_q != '0)) begin
      valid_q[ptr_q] <= give;
      ptr_q          <= (ptr_q == PtrW'(Slots - 1)) ? '0 : ptr_q + PtrW'(1);
    end
  end

endmodule
