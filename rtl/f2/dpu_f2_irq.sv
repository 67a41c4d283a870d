// The interrupt to the shell: a pulse of one cycle, and no second one before the first is acknowledged.
// `level_i` is what is pending and enabled. Each bit that rises asks for an interrupt; bits that rise together, or while one
// is open, share one. If no acknowledge comes for `Patience` cycles, `clear_i` (the host has read what is pending) ends the
// wait: an interrupt that is lost in the shell costs no later one.

module dpu_f2_irq #(
  parameter int unsigned Width    = 5,
  parameter int unsigned Patience = 1024
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic [Width-1:0] level_i,
  input  logic             clear_i,
  output logic             req_o,
  input  logic             ack_i
);

  localparam int unsigned TimeW = $clog2(Patience + 1);

  logic [Width-1:0] level_q;
  logic [TimeW-1:0] time_q;
  logic             want_q, open_q, req_q, late;

  assign req_o = req_q;
  assign late  = time_q == TimeW'(Patience);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      level_q <= '0;
      time_q  <= '0;
      want_q  <= 1'b0;
      open_q  <= 1'b0;
      req_q   <= 1'b0;
    end else begin
      level_q <= level_i;
      req_q   <= want_q & ~open_q;
      if ((level_i & ~level_q) != '0) want_q <= 1'b1;
      else if (!open_q) want_q <= 1'b0;
      if (want_q && !open_q) open_q <= 1'b1;
      else if (ack_i || (clear_i && late)) open_q <= 1'b0;
      if (!open_q) time_q <= '0;
      else if (!late) time_q <= time_q + TimeW'(1);
    end
  end

endmodule
