// A process in Go that does not speak Kafka: it has cash, sends coins into a topic by gRPC, and receives change.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	pb "till/snapshotpb"
)

const service = "/distributed.snapshot.SnapshotService/"

type till struct {
	mu        sync.Mutex // held while a coin is sent or taken in, and while the state is recorded and given
	conn      *grpc.ClientConn
	node      string
	session   string
	topic     string
	cash      int
	positions map[uint32]*pb.Position // of what is in the cash, by partition of its input
}

// named is a context whose calls name the session that Join returned.
func (t *till) named() context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), "snapkafka-session", t.session)
}

func (t *till) call(method string, in, out proto.Message) {
	ctx, cancel := context.WithTimeout(t.named(), 20*time.Second)
	defer cancel()
	if err := t.conn.Invoke(ctx, service+method, in, out); err != nil {
		log.Fatalf("%s: %v", method, err)
	}
}

func (t *till) record(snapshot string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := []byte(fmt.Sprintf(`{"cash": %d}`, t.cash))
	t.call("FlushChannelState", &pb.FlushRequest{SnapshotId: snapshot, NodeId: t.node, StateData: state}, &pb.FlushResponse{})
	marker := &pb.MarkerRequest{SnapshotId: snapshot, SenderNodeId: t.node, TimestampNs: time.Now().UnixNano()}
	for _, position := range t.positions {
		marker.Positions = append(marker.Positions, position)
	}
	var answer pb.MarkerResponse
	t.call("SendMarker", marker, &answer)
	fmt.Println("cut", snapshot, answer.Accepted)
}

func (t *till) send(number int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	amount := 1 + number%9
	key, value := []byte(fmt.Sprintf("purse-%d", number%50)), []byte(fmt.Sprint(amount))
	t.call("Send", &pb.SendRequest{NodeId: t.node, Topic: t.topic, Key: key, Value: value}, &pb.SendResponse{})
	t.cash -= amount
}

func (t *till) stream(method string, request proto.Message) grpc.ClientStream {
	stream, err := t.conn.NewStream(t.named(), &grpc.StreamDesc{ServerStreams: true}, service+method)
	if err != nil {
		log.Fatal(err)
	}
	if err := stream.SendMsg(request); err != nil {
		log.Fatal(err)
	}
	stream.CloseSend()
	return stream
}

func (t *till) receive() {
	stream := t.stream("Receive", &pb.ReceiveRequest{NodeId: t.node})
	for first := true; ; first = false {
		var message pb.Message
		if err := stream.RecvMsg(&message); err != nil {
			log.Fatal(err)
		}
		amount, err := strconv.Atoi(string(message.Value))
		if err != nil {
			log.Fatal(err)
		}
		t.mu.Lock()
		t.cash += amount
		t.positions[message.Partition] = &pb.Position{Topic: message.Topic, Partition: message.Partition, Offset: message.Offset + 1}
		t.mu.Unlock()
		if first {
			fmt.Println("received", amount)
		}
	}
}

func main() {
	address := flag.String("address", "", "of the service")
	node := flag.String("node", "go-till", "")
	topic := flag.String("topic", "", "")
	input := flag.String("input", "", "")
	cash := flag.Int("cash", 0, "")
	flag.Parse()
	conn, err := grpc.NewClient(*address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	t := &till{conn: conn, node: *node, topic: *topic, cash: *cash, positions: map[uint32]*pb.Position{}}
	inputs := []*pb.Input{{Topic: *input, ValueCodec: "json"}}
	stream := t.stream("Join", &pb.JoinRequest{NodeId: *node, Codec: "json", Inputs: inputs})
	for joined := false; ; {
		var notice pb.Notice
		if err := stream.RecvMsg(&notice); err != nil {
			log.Fatal(err)
		}
		switch {
		case notice.GetMarker() != nil:
			t.record(notice.GetMarker().SnapshotId)
		case notice.GetLeft() != nil:
			log.Fatal(notice.GetLeft().Reason)
		case !joined:
			joined = true
			t.session = notice.GetJoined().Session
			fmt.Println("joined", notice.GetJoined().Process)
			go t.receive()
			go func() {
				for number := 0; ; number++ {
					t.send(number)
					time.Sleep(2 * time.Millisecond)
				}
			}()
		}
	}
}
